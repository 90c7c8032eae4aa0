module pg_lean/clients

go 1.21

require (
	github.com/jackc/pgx/v5 v5.7.2
	github.com/lib/pq v1.10.9
)
