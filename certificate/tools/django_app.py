"""A Django application whose columns become appendable between two of its migrations.

It does the same with a model on plain columns and one on columns of the types, and prints
what it read of both; the test compares them.  PGHOST and PGPORT say where the server is.
"""

import os
import sys
import types

import django
from django.conf import settings
from django.db import connection, models

settings.configure(
    INSTALLED_APPS=["logs"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
        }
    },
)
# an application that is this file
package = types.ModuleType("logs")
package.__file__, package.__path__ = __file__, [os.path.dirname(__file__)]
sys.modules["logs"] = package
django.setup()


def model(name: str) -> type[models.Model]:
    return type(name, (models.Model,), {"data": models.BinaryField(default=b""), "note": models.TextField(default="", null=True), "__module__": "logs.models",
                                        "Meta": type("Meta", (), {"app_label": "logs", "db_table": name.lower()})})


Plain, Lean = model("Plain"), model("Lean")
with connection.schema_editor() as editor:
    for each in (Plain, Lean):
        editor.create_model(each)
for number in range(20):
    for each in (Plain, Lean):
        each.objects.create(data=bytes([number]) * 3000 * number, note="note " * 200 * number)
with connection.cursor() as cursor:
    cursor.execute("ALTER TABLE lean ALTER data TYPE appendable_bytea, ALTER note TYPE appendable_text")

found = {}
for each in (Plain, Lean):
    out = found[each] = []
    for row in each.objects.order_by("id"):
        row.data = bytes(row.data) + b"more" * 100
        row.note = row.note + "more"
        row.save()
    out.append(each.objects.filter(id__lte=10).update(note=models.functions.Concat("note", models.Value("!"))))
    out.append(each.objects.filter(note__contains="more!").count())
    out.append(each.objects.filter(note__startswith="note note").count())
    out.append(each.objects.filter(data=bytes([1]) * 3000 + b"more" * 100).count())
    out.append(list(each.objects.annotate(length=models.functions.Length("note")).order_by("id").values_list("length", flat=True)))
    each.objects.filter(id=5).delete()
    each.objects.bulk_update([each(id=7, note=None)], ["note"])
    out.append(each.objects.get_or_create(id=30, defaults={"data": b"new"})[1])
    out.append([(row.id, bytes(row.data), row.note) for row in each.objects.order_by("id")])
    # the second migration
    with connection.schema_editor() as editor:
        added = models.IntegerField(default=3)
        added.set_attributes_from_name("size")
        editor.add_field(each, added)
        changed = models.TextField(default="none")
        changed.set_attributes_from_name("note")
        each.objects.filter(note=None).update(note="none")
        editor.alter_field(each, each._meta.get_field("note"), changed)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id, md5(data::bytea), note::text, size FROM {each._meta.db_table} ORDER BY id")
        out.append(cursor.fetchall())
        cursor.execute("SELECT attname, attnotnull FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum", [each._meta.db_table])
        out.append(cursor.fetchall())
for plain, lean in zip(found[Plain], found[Lean]):
    if plain != lean:
        sys.exit(f"plain: {plain!r:.300}\nlean: {lean!r:.300}")
print(f"{len(found[Plain])} results of an application")
