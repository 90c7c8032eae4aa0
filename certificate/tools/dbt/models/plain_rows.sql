{{ config(materialized='incremental', unique_key='id') }}
SELECT id, plain AS data, ptext AS note, length(plain) AS size
FROM public.twin
{% if is_incremental() %}
WHERE length(plain) <> (SELECT seen.size FROM {{ this }} AS seen WHERE seen.id = twin.id)
   OR id NOT IN (SELECT id FROM {{ this }})
{% endif %}
