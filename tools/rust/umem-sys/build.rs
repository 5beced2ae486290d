//! Builds libumem.a from the C sources below c/, as the Makefile of the tree
//! does, with the C compiler and ar alone.
//!
//! `CC_<target>` or `CC` names the compiler, `AR_<target>` or `AR` the
//! archiver, `UMEM_SYS_CFLAGS` further options of the compiler, such as `-O1`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Sources that belong to the libraries that replace malloc, as SHIM_ONLY of
/// the Makefile.
const LEFT_OUT: [&str; 8] = [
    "umem/malloc/malloc.c",
    "umem/malloc/allocx.c",
    "umem/malloc/operators.c",
    "umem/malloc/thread.c",
    "umem/malloc/dlopen.c",
    "umem/malloc/archive.c",
    "umem/stats/mallinfo.c",
    "umem/mallctl.c",
];
/// The source that needs liburcu.
const RCU: &str = "umem/rcu/rcu.c";

/// Options that the sources need, as CFLAGS and LIB_CFLAGS of the Makefile.
const OPTIONS: [&str; 8] = [
    "-O2",
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-fvisibility=hidden",
    "-fPIC",
    "-ftls-model=initial-exec",
    "-ffunction-sections",
    "-fno-lto",
];

/// The macros of valgrind's header that the sources use, for a machine that
/// lacks it: then memcheck does not know the library's objects.
const NO_VALGRIND: &str = "
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_CREATE_MEMPOOL(...) ((void)0)
#define VALGRIND_DESTROY_MEMPOOL(...) ((void)0)
#define VALGRIND_DISABLE_ADDR_ERROR_REPORTING_IN_RANGE(...) ((void)0)
#define VALGRIND_ENABLE_ADDR_ERROR_REPORTING_IN_RANGE(...) ((void)0)
#define VALGRIND_FREELIKE_BLOCK(...) ((void)0)
#define VALGRIND_MAKE_MEM_DEFINED(...) ((void)0)
#define VALGRIND_MAKE_MEM_NOACCESS(...) ((void)0)
#define VALGRIND_MAKE_MEM_UNDEFINED(...) ((void)0)
#define VALGRIND_MALLOCLIKE_BLOCK(...) ((void)0)
#define VALGRIND_MEMPOOL_ALLOC(...) ((void)0)
#define VALGRIND_MEMPOOL_CHANGE(...) ((void)0)
#define VALGRIND_MEMPOOL_FREE(...) ((void)0)
";

fn fail(message: &str) -> ! {
    eprintln!("umem-sys: {}", message);
    process::exit(1);
}

fn set(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("cargo does not set {}", name)))
}

/// The words of `NAME_<target>` or `NAME`, or a default.
fn tool(name: &str, default: &str) -> Vec<String> {
    let target = set("TARGET");
    let names = [
        format!("{}_{}", name, target),
        format!("{}_{}", name, target.replace('-', "_")),
        name.to_string(),
    ];
    let mut value = default.to_string();

    for name in names.iter().rev() {
        println!("cargo:rerun-if-env-changed={}", name);
        if let Ok(found) = env::var(name) {
            value = found;
        }
    }
    value.split_whitespace().map(String::from).collect()
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Is the feature rcu on?
fn has_rcu() -> bool {
    env::var_os("CARGO_FEATURE_RCU").is_some()
}

/// Runs a command; returns its error output if it fails.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{:?}: {}", command.get_program(), error))?;

    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Appends the C files below a folder to `sources`, and reports each source and
/// header to cargo.
fn find_sources(top: &Path, folder: &str, sources: &mut Vec<String>) {
    let entries = fs::read_dir(top.join(folder))
        .unwrap_or_else(|_| fail(&format!("there are no sources in c/{}", folder)));

    for entry in entries.flatten() {
        let name = format!("{}/{}", folder, entry.file_name().to_string_lossy());
        let path = top.join(&name);

        if path.is_dir() {
            find_sources(top, &name, sources);
        } else if name.ends_with(".c") || name.ends_with(".h") {
            println!("cargo:rerun-if-changed={}", path.display());
            let is_left_out = LEFT_OUT.contains(&name.as_str()) || (name == RCU && !has_rcu());
            if name.ends_with(".c") && !is_left_out {
                sources.push(name);
            }
        }
    }
}

/// The compiler with its options.
fn compiler(top: &Path, out: &Path) -> Vec<String> {
    if set("TARGET") != set("HOST") && tool("CC", "").is_empty() {
        fail(&format!("set CC_{} to a compiler for it", set("TARGET")));
    }
    if set("CARGO_CFG_TARGET_OS") != "linux" || set("CARGO_CFG_TARGET_POINTER_WIDTH") != "64" {
        fail("needs Linux on a machine with 64 bits");
    }
    let mut cc = tool("CC", "cc");
    println!("cargo:rerun-if-env-changed=UMEM_SYS_CFLAGS");
    cc.extend(OPTIONS.iter().map(|option| option.to_string()));
    if set("DEBUG") != "false" {
        cc.push("-g".to_string());
    }
    cc.extend(
        env::var("UMEM_SYS_CFLAGS")
            .unwrap_or_default()
            .split_whitespace()
            .map(String::from),
    );
    cc.push(format!("-I{}", top.display()));
    // For umem_rcu.h, which names umem.h as a program does.
    cc.push(format!("-idirafter{}", top.join("umem").display()));

    let probe = out.join("probe.c");
    write(&probe, "#include <stdlib.h>\n");
    if let Err(error) = run(command(&cc).arg("-fsyntax-only").arg(&probe)) {
        fail(&format!(
            "needs a C compiler (gcc or clang) and libc's headers; set CC: {}",
            error.trim_end()
        ));
    }
    write(&probe, "#include <urcu/urcu-memb.h>\n");
    if has_rcu() && run(command(&cc).arg("-fsyntax-only").arg(&probe)).is_err() {
        fail("the feature rcu needs the headers of liburcu");
    }
    write(&probe, "#include <valgrind/memcheck.h>\n");
    if run(command(&cc).arg("-fsyntax-only").arg(&probe)).is_err() {
        let stand_in = out.join("include/valgrind");

        fs::create_dir_all(&stand_in).unwrap_or_else(|error| fail(&error.to_string()));
        write(&stand_in.join("memcheck.h"), NO_VALGRIND);
        cc.push(format!("-I{}", out.join("include").display()));
    }
    cc
}

fn write(path: &Path, text: &str) {
    if let Err(error) = fs::write(path, text) {
        fail(&format!("{}: {}", path.display(), error));
    }
}

/// Compiles the sources by as many threads as cargo allows.
fn compile(cc: &[String], top: &Path, out: &Path, sources: &[String]) -> Vec<PathBuf> {
    let njobs = set("NUM_JOBS").parse().unwrap_or(1);
    let objects: Vec<PathBuf> = sources
        .iter()
        .map(|source| out.join(source.replace('/', "-") + ".o"))
        .collect();
    let next = AtomicUsize::new(0);

    thread::scope(|scope| {
        for _ in 0..njobs {
            scope.spawn(|| loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= sources.len() {
                    break;
                }
                let source = top.join(&sources[i]);
                let result = run(command(cc).arg("-c").arg(source).arg("-o").arg(&objects[i]));
                if let Err(error) = result {
                    fail(&format!("{} does not compile:\n{}", sources[i], error));
                }
            });
        }
    });
    objects
}

/// Links the objects into one, whose hidden symbols are local, so that they do
/// not clash with those of a program.  Without ld and objcopy, the archive has
/// the objects themselves.
fn localize(objects: Vec<PathBuf>, out: &Path) -> Vec<PathBuf> {
    let one = out.join("umem.o");
    let mut ld = command(&tool("LD", "ld"));
    let mut objcopy = command(&tool("OBJCOPY", "objcopy"));

    ld.arg("-r").arg("-o").arg(&one).args(&objects);
    objcopy.arg("--localize-hidden").arg(&one);
    if run(&mut ld).and_then(|()| run(&mut objcopy)).is_ok() {
        vec![one]
    } else {
        objects
    }
}

fn main() {
    let top = Path::new(&set("CARGO_MANIFEST_DIR")).join("c");
    let out = PathBuf::from(set("OUT_DIR"));
    let archive = out.join("libumem.a");
    let mut sources = Vec::new();

    println!("cargo:rerun-if-changed=build.rs");
    for folder in ["vmem", "magazine", "umem"] {
        find_sources(&top, folder, &mut sources);
    }
    let cc = compiler(&top, &out);
    let objects = localize(compile(&cc, &top, &out, &sources), &out);

    let _ = fs::remove_file(&archive);
    let words: Vec<OsString> = objects.into_iter().map(OsString::from).collect();
    if let Err(error) = run(command(&tool("AR", "ar"))
        .arg("rcs")
        .arg(&archive)
        .args(words))
    {
        fail(&format!("needs ar; set AR: {}", error.trim_end()));
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=umem");
    if has_rcu() {
        println!("cargo:rustc-link-lib=dylib=urcu-memb");
    }
    println!("cargo:rustc-link-lib=dylib=pthread");
    println!("cargo:rustc-link-lib=dylib=dl");
}
