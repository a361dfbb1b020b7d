"""The persistent cache of compiled programs, under the name that programs import: `compilation_cache.compilation_cache`."""
