#!/bin/sh
# Unpack the archive from which Spark's processes import PySpark, as docs/performance.md advises: Python cannot keep
# compiled code beside an archive, so each process would compile PySpark again.
# Usage: tools/unpack_pyspark.sh PYTHON
set -eu

lib=$("$1" -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "python", "lib"))')
[ -f "$lib/pyspark.zip" ] || exit 0
echo "==> unpacking PySpark, so that its processes start faster"
rm -rf "$lib/unpacked"
"$1" -m zipfile -e "$lib/pyspark.zip" "$lib/unpacked"
mv "$lib/pyspark.zip" "$lib/packed.zip"
mv "$lib/unpacked" "$lib/pyspark.zip"
