{% snapshot lean_history %}
{{ config(target_schema='public', unique_key='id', strategy='check', check_cols=['data', 'note'], invalidate_hard_deletes=True) }}
SELECT id, lean AS data, ltext AS note FROM public.twin
{% endsnapshot %}
