//! A program on the allocator, to look into by the command `umem`.
//!
//! It holds objects until its input ends.

use std::io::{self, Read, Write};

#[global_allocator]
static GLOBAL: umem::Umem = umem::Umem;

fn main() -> io::Result<()> {
    let cache = umem::Builder::new().name("connection").build()?;
    let connections: Vec<_> = (0..1000u64).map(|id| cache.make([id; 12])).collect();

    println!("ready: umem status {}", std::process::id());
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    println!("{} connections", connections.len());
    Ok(())
}
