// pgx in all of its query modes, its database/sql driver, and lib/pq, on both types.
package main

import (
	"context"
	"crypto/md5"
	"database/sql"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
)

var chunk = make([]byte, 10000)
var hex = []byte("\\x4142")
var failed = false

func show(v any) string {
	if b, ok := v.([]byte); ok {
		n := len(b)
		if n > 20 {
			n = 20
		}
		return fmt.Sprintf("[]byte %v %d %x %x", b == nil, len(b), b[:n], md5.Sum(b))
	}
	return fmt.Sprintf("%T %v", v, v)
}

type step struct {
	query string
	args  []any
}

func steps(table string, array any) []step {
	s := []step{{"TRUNCATE %s", nil}}
	for i, v := range [][]byte{{}, {0, 1}, chunk, hex, nil} {
		s = append(s, step{"INSERT INTO %s VALUES ($1, $2) RETURNING id, data", []any{i, v}})
	}
	for i := 0; i < 7; i++ {
		if i == 4 {
			s = append(s, step{"ALTER TABLE %s SET (fillfactor = 75)", nil})
		}
		s = append(s, step{"UPDATE %s SET data = data || $1 WHERE id = $2 RETURNING data, length(data)", []any{hex, 1}},
			step{"SELECT data, id FROM %s ORDER BY data", nil},
			step{"SELECT substr(data, $1, $2), get_byte(data, $3) FROM %s WHERE length(data) > $3 ORDER BY id", []any{1, 2, 1}})
	}
	s = append(s, step{"SELECT data FROM %s WHERE data = $1 OR data > $2 ORDER BY id", []any{hex, chunk}},
		step{"SELECT DISTINCT data FROM %s ORDER BY 1", nil},
		step{"SELECT data FROM %s UNION SELECT $1 ORDER BY 1", []any{[]byte("z")}},
		step{"WITH new AS (UPDATE %s SET data = overlay(data PLACING $1 FROM $2) RETURNING data) SELECT data FROM new ORDER BY data", []any{hex, 2}})
	if array != nil {
		s = append(s, step{"SELECT id FROM %s WHERE data = ANY ($1) ORDER BY id", []any{array}},
			step{"SELECT array_agg(data ORDER BY id) FROM %s WHERE data IS NOT NULL", nil})
	}
	return append(s, step{"WITH gone AS (DELETE FROM %s RETURNING data) SELECT data FROM gone ORDER BY data", nil})
}

func report(name string, plain, own []string) {
	if len(plain) == len(own) && len(plain) > 20 {
		same := true
		for i := range plain {
			same = same && plain[i] == own[i]
		}
		if same {
			fmt.Printf("ok %s: %d results\n", name, len(plain))
			return
		}
	}
	failed = true
	fmt.Printf("not ok %s: %d and %d results\n", name, len(plain), len(own))
	for i := range plain {
		if i < len(own) && plain[i] != own[i] {
			fmt.Printf("  bytea            %s\n  appendable_bytea %s\n", plain[i], own[i])
		}
	}
}

func withPgx(mode pgx.QueryExecMode, table string) []string {
	ctx := context.Background()
	config, err := pgx.ParseConfig("")
	if err != nil {
		return []string{err.Error()}
	}
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return []string{err.Error()}
	}
	defer conn.Close(ctx)
	found := []string{}
	var array any = [][]byte{chunk, hex}
	for _, s := range steps(table, array) {
		rows, err := conn.Query(ctx, fmt.Sprintf(s.query, table), s.args...)
		if err != nil {
			found = append(found, s.query+" error "+err.Error())
			continue
		}
		for rows.Next() {
			values, err := rows.Values()
			line := fmt.Sprint(err, rows.FieldDescriptions()[0].DataTypeOID, " ")
			for _, v := range values {
				line += show(v) + " "
			}
			if len(values) > 0 && rows.FieldDescriptions()[0].DataTypeOID == 17 {
				var scanned []byte
				rest := make([]any, len(values))
				rest[0] = &scanned
				line += fmt.Sprint(rows.Scan(rest...)) + " " + show(scanned)
			}
			found = append(found, line)
		}
		if rows.Err() != nil {
			found = append(found, s.query+" error "+rows.Err().Error())
		}
	}
	// batches, and COPY, whose columns' types are looked up
	batch := &pgx.Batch{}
	for i := 0; i < 4; i++ {
		batch.Queue(fmt.Sprintf("INSERT INTO %s VALUES ($1, $2) RETURNING data", table), i+10, chunk[:i*100])
	}
	results := conn.SendBatch(ctx, batch)
	for i := 0; i < 4; i++ {
		var data []byte
		found = append(found, fmt.Sprint(results.QueryRow().Scan(&data))+show(data))
	}
	found = append(found, fmt.Sprint(results.Close()))
	n, err := conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"id", "data"}, pgx.CopyFromRows([][]any{{30, chunk}, {31, hex}, {32, nil}}))
	found = append(found, fmt.Sprint(n, err))
	var data []byte
	found = append(found, fmt.Sprint(conn.QueryRow(ctx, fmt.Sprintf("SELECT data FROM %s WHERE id = 30", table)).Scan(&data))+show(data))
	return found
}

func withSQL(driver, options, table string) []string {
	db, err := sql.Open(driver, options)
	if err != nil {
		return []string{err.Error()}
	}
	defer db.Close()
	found := []string{}
	for _, s := range steps(table, nil) {
		rows, err := db.Query(fmt.Sprintf(s.query, table), s.args...)
		if err != nil {
			found = append(found, s.query+" error "+err.Error())
			continue
		}
		types, _ := rows.ColumnTypes()
		for rows.Next() {
			values := make([]any, len(types))
			pointers := make([]any, len(types))
			for i := range values {
				pointers[i] = &values[i]
			}
			line := fmt.Sprint(rows.Scan(pointers...), types[0].DatabaseTypeName(), types[0].ScanType())
			for _, v := range values {
				line += show(v) + " "
			}
			if types[0].Name() == "data" {
				var raw sql.RawBytes
				rest := make([]any, len(types))
				rest[0] = &raw
				for i := 1; i < len(rest); i++ {
					rest[i] = new(any)
				}
				line += fmt.Sprint(rows.Scan(rest...)) + show([]byte(raw))
			}
			found = append(found, line)
		}
		if rows.Err() != nil {
			found = append(found, s.query+" error "+rows.Err().Error())
		}
		rows.Close()
	}
	return found
}

func main() {
	for i := range chunk {
		chunk[i] = byte(i)
	}
	modes := map[string]pgx.QueryExecMode{"cache statement": pgx.QueryExecModeCacheStatement, "cache describe": pgx.QueryExecModeCacheDescribe,
		"describe exec": pgx.QueryExecModeDescribeExec, "exec": pgx.QueryExecModeExec, "simple protocol": pgx.QueryExecModeSimpleProtocol}
	for name, mode := range modes {
		report("pgx, "+name, withPgx(mode, "plain"), withPgx(mode, "own"))
	}
	report("pgx through database/sql", withSQL("pgx", "", "plain"), withSQL("pgx", "", "own"))
	pq := fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable", os.Getenv("PGHOST"), os.Getenv("PGPORT"), os.Getenv("PGUSER"), os.Getenv("PGDATABASE"))
	report("lib/pq", withSQL("postgres", pq, "plain"), withSQL("postgres", pq, "own"))
	report("lib/pq, binary_parameters", withSQL("postgres", pq+" binary_parameters=yes", "plain"), withSQL("postgres", pq+" binary_parameters=yes", "own"))
	if failed {
		os.Exit(1)
	}
}
