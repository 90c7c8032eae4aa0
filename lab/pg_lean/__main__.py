from pg_lean.cli import main

main()
