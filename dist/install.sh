#!/bin/sh
# Installs a binary with its units, manual pages, completions, documentation and first configuration:
# `dist/install.sh BINARY`, with DESTDIR and PREFIX in the environment. `make install` calls it.
#
# PAGES_FROM names another binary of the same version that prints manual pages and completions. It is needed if
# BINARY is for another processor.
# Existing files below /etc are not changed.
set -eu
umask 022

binary=$1
pages_from=${PAGES_FROM:-$binary}
destdir=${DESTDIR:-}
prefix=${PREFIX:-/usr/local}
source=$(cd "$(dirname "$0")/.." && pwd)
root=$destdir$prefix

# Copies a file with mode 644 (or the mode in $3), and makes its folder.
put() {
  install -D -m "${3:-644}" "$1" "$2"
}

# Copies a file that the administrator may have changed, unless it exists.
put_once() {
  test -e "$2" || put "$1" "$2"
}

# Copies a unit, with the path of the installed binary.
put_unit() {
  put "$source/dist/systemd/$1" "$root/lib/systemd/system/$1"
  sed -i "s|/usr/bin/tollgate|$prefix/bin/tollgate|; s|/usr/share/doc|$prefix/share/doc|" "$root/lib/systemd/system/$1"
}

put "$binary" "$root/bin/tollgate" 755
put_unit tollgate.service
put_unit tollgate.socket
put "$source/dist/sysusers/tollgate.conf" "$root/lib/sysusers.d/tollgate.conf"

put_once "$source/dist/tollgate.toml" "$destdir/etc/tollgate/tollgate.toml"
put_once "$source/examples/score/routes/score.luau" "$destdir/etc/tollgate/routes/score.luau"

mkdir -p "$root/share/man/man1"
"$pages_from" man "$root/share/man/man1" >/dev/null
gzip -9nf "$root"/share/man/man1/tollgate*.1

mkdir -p "$root/share/bash-completion/completions" "$root/share/zsh/vendor-completions" "$root/share/fish/vendor_completions.d"
"$pages_from" completions bash >"$root/share/bash-completion/completions/tollgate"
"$pages_from" completions zsh >"$root/share/zsh/vendor-completions/_tollgate"
"$pages_from" completions fish >"$root/share/fish/vendor_completions.d/tollgate.fish"

documents=$root/share/doc/tollgate
for page in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
  put "$source/$page" "$documents/$page"
done
(cd "$source/docs" && find . -type f \( -name '*.md' -o -name '*.webp' \)) | while read -r page; do
  put "$source/docs/$page" "$documents/${page#./}"
done
for example in prometheus/tollgate.rules.yml grafana/tollgate.json; do
  put "$source/dist/$example" "$documents/examples/$(basename "$example")"
done
