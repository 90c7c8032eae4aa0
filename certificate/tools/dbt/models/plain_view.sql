{{ config(materialized='view') }}
SELECT id, upper(note) AS note, data || data AS twice FROM {{ ref('plain_rows') }} WHERE size > 100
