/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "zombies.h"

#include <stdio.h>

#include "output.h"

void zombies_print(struct json_object *zombies)
{
    static const char *const titles[] = {">DOMID", "ZOMBIE", ">KEEPS", ">DEAD FOR"};
    struct output_table table = OUTPUT_TABLE(titles);
    char text[OUTPUT_TEXT];

    if (zombies == NULL || json_object_array_length(zombies) == 0)
        return;
    for (size_t i = 0; i < json_object_array_length(zombies); i++) {
        struct json_object *z = json_object_array_get_idx(zombies, i);

        output_table_add_int(&table, wire_get_int(z, "domid", -1));
        output_table_add(&table, wire_get_str(z, "name", "-"));
        snprintf(text, sizeof(text), "%lld pages", (long long)wire_get_int(z, "pages", 0));
        output_table_add(&table, text);
        output_table_add(&table, output_duration(wire_get_int(z, "dead_ms", -1), text));
    }
    putchar('\n');
    output_table_end(&table);
}
