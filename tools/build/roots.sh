# roots.sh - Debian's packages, unpacked in a folder; sourced
#
# The packages come from MIRROR, by default the first Debian archive that this
# machine's apt knows.  Nothing of them is installed on this machine, and the
# caller need not be root.  $folder keeps the packages' lists and the results.
#
# shellcheck shell=bash disable=SC2154 # folder is the caller's

find_mirror() {
	# shellcheck disable=SC2016 # a format
	MIRROR=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' \
	    'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
	    head -n 1)}
	MIRROR=${MIRROR:-http://deb.debian.org/debian}
}

# lists RELEASE ARCH [deb-src] - gives apt the lists of a release, of packages
# or of sources, and a state of its own
lists() {
	local at=$folder/apt/$1-$2

	find_mirror
	mkdir -p "$at/lists/partial" "$at/archives/partial"
	: >"$at/status"
	echo "${3:-deb} [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
	    "$MIRROR $1 main" >"$at/sources.list"
	archives=$at/archives
	apt=(-qq -o Dir::State="$at" -o Dir::State::status="$at/status"
		-o Dir::Cache="$at" -o Dir::Etc::sourcelist="$at/sources.list"
		-o Dir::Etc::sourceparts=/dev/null
		-o Dir::Etc::preferencesparts=/dev/null
		-o APT::Architecture="$2" -o APT::Architectures="$2"
		-o APT::Sandbox::User=root -o APT::Install-Recommends=0)
	apt-get "${apt[@]}" update
}

# unpack ROOT DEB...
unpack() {
	local deb

	for deb in "${@:2}"; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1" \
		    --keep-directory-symlink --no-same-owner \
		    --exclude='./usr/share/doc' --exclude='./usr/share/man' \
		    --exclude='./usr/share/locale' || return
	done
}

# root NAME RELEASE ARCH PACKAGE... - unpacks packages, and those that they
# depend on, in $folder/NAME, unless the same ones are there
root() {
	local root=$folder/$1 list dir link

	lists "$2" "$3" || return
	list=$(apt-get "${apt[@]}" install --print-uris "${@:4}" |
	    cut -d ' ' -f 1) || return
	[ "$list" != "$(cat "$root.list" 2>/dev/null)" ] || return 0
	apt-get "${apt[@]}" install -d -y "${@:4}" || return
	rm -rf "$root" "$root.list" "$root.cpio"
	for dir in bin sbin lib lib64; do
		mkdir -p "$root/usr/$dir"
		ln -s "usr/$dir" "$root/$dir"
	done
	unpack "$root" "$archives"/*.deb && apt-get "${apt[@]}" clean || return
	# No package's script has run.
	[ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
	[ -e "$root/bin/awk" ] || ln -s mawk "$root/bin/awk"
	while read -r link; do
		ln -sfr "$root$(readlink "$link")" "$link"
	done < <(find "$root" -type l -lname '/*')
	echo "$list" >"$root.list"
}

# sources RELEASE PACKAGE... - unpacks Debian's sources, without Debian's
# changes, in $folder/PACKAGE; apt compares their checksums with those that
# Debian has signed
sources() {
	local package at=$folder/sources

	lists "$1" source deb-src || return
	for package in "${@:2}"; do
		[ ! -e "$folder/$package" ] || continue
		rm -rf "$at"
		mkdir -p "$at/unpacked"
		(cd "$at" && apt-get "${apt[@]}" source --download-only \
		    --tar-only "$package") &&
		    tar -x -C "$at/unpacked" --strip-components=1 \
			-f "$at"/*.orig.tar.?z* &&
		    mv "$at/unpacked" "$folder/$package" || return
	done
}
