// tokio-postgres (through its synchronous face, postgres) on both types.
use postgres::{types::ToSql, Client, NoTls};
use std::collections::hash_map::DefaultHasher;
use std::env::var;
use std::hash::{Hash, Hasher};

fn show(data: Option<Vec<u8>>) -> String {
    match data {
        None => "null".into(),
        Some(data) => {
            let mut hasher = DefaultHasher::new();
            data.hash(&mut hasher);
            format!("{} {:x} {:?}", data.len(), hasher.finish(), &data[..data.len().min(16)])
        }
    }
}

fn scenario(table: &str, chunk: &[u8]) -> Vec<String> {
    let hex: &[u8] = b"\\x4142";
    let mut found = Vec::new();
    let options = format!("host={} port={} user={} dbname={}", var("PGHOST").unwrap(), var("PGPORT").unwrap(), var("PGUSER").unwrap(), var("PGDATABASE").unwrap());
    let mut client = Client::connect(&options, NoTls).unwrap();
    let mut run = |client: &mut Client, sql: &str, values: &[&(dyn ToSql + Sync)]| {
        let sql = sql.replace("TABLE_", table);
        match client.prepare(&sql) {
            Err(error) => found.push(format!("{sql}: {error}").replace(table, "TABLE_")),
            Ok(statement) => {
                found.push(format!("{:?} {:?}", statement.params(), statement.columns().iter().map(|c| c.type_().name().to_string()).collect::<Vec<_>>()));
                match client.query(&statement, values) {
                    Err(error) => found.push(format!("{sql}: {error:?}").replace(table, "TABLE_")),
                    Ok(rows) => {
                        for row in rows {
                            let data: Result<Option<Vec<u8>>, _> = row.try_get("data");
                            found.push(format!("{} {:?}", row.len(), data.map(show).map_err(|e| e.to_string())));
                        }
                    }
                }
            }
        }
    };
    run(&mut client, "TRUNCATE TABLE_", &[]);
    for (i, value) in [Some(&b""[..]), Some(&[0u8, 1][..]), Some(chunk), Some(hex), None].iter().enumerate() {
        run(&mut client, "INSERT INTO TABLE_ VALUES ($1, $2) RETURNING data, id", &[&(i as i32), value]);
    }
    for _ in 0..6 {
        run(&mut client, "UPDATE TABLE_ SET data = data || $1 WHERE id = $2 RETURNING data", &[&hex, &1i32]);
        run(&mut client, "SELECT substr(data, $1, $2) AS data, get_byte(data, $3) FROM TABLE_ WHERE length(data) > $3 ORDER BY id", &[&2i32, &3i32, &1i32]);
        run(&mut client, "SELECT data FROM TABLE_ WHERE data = $1 OR data > $2 ORDER BY data", &[&hex, &chunk]);
        run(&mut client, "SELECT data FROM TABLE_ WHERE data = ANY ($1) ORDER BY id", &[&vec![hex, chunk]]);
    }
    run(&mut client, "ALTER TABLE TABLE_ SET (fillfactor = 74)", &[]);
    run(&mut client, "SELECT data FROM TABLE_ UNION SELECT $1 ORDER BY 1", &[&chunk]);
    run(&mut client, "SELECT DISTINCT data FROM TABLE_ ORDER BY 1", &[]);
    run(&mut client, "WITH gone AS (DELETE FROM TABLE_ RETURNING data) SELECT data FROM gone ORDER BY data", &[]);
    found
}

fn main() {
    let chunk: Vec<u8> = (0..10000).map(|i| i as u8).collect();
    let (plain, own) = (scenario("plain", &chunk), scenario("own", &chunk));
    if plain == own && plain.len() > 30 && plain.iter().any(|line| line.contains("Bytea")) {
        println!("ok tokio-postgres: {} results", plain.len());
        return;
    }
    println!("not ok tokio-postgres: {} and {} results", plain.len(), own.len());
    for (a, b) in plain.iter().zip(own.iter()).filter(|(a, b)| a != b) {
        println!("  bytea            {a}\n  appendable_bytea {b}");
    }
    std::process::exit(1);
}
