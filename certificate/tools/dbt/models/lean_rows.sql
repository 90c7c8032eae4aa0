{{ config(materialized='incremental', unique_key='id') }}
SELECT id, lean AS data, ltext AS note, length(lean) AS size
FROM public.twin
{% if is_incremental() %}
WHERE length(lean) <> (SELECT seen.size FROM {{ this }} AS seen WHERE seen.id = twin.id)
   OR id NOT IN (SELECT id FROM {{ this }})
{% endif %}
