/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "completion.h"

#include <string.h>

#include "cmd.h"

/* Words that stand for a value, by what the table calls it. */
static const struct {
    const char *arg, *words;
} values[] = {
    {"LIST", "all auto"},
    {"RATE", "none"},
};

static const char *words_of(const char *arg)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (strcmp(values[i].arg, arg) == 0)
            return values[i].words;
    }
    return "";
}

static const char header[] =
    "# Completion of scrubctl for %s. Made by: scrubctl completion %s\n"
    "# The names of domains come from scrubctl itself, and from nobody who is not root.\n";

/* Of names no part is ever expanded by the shell: a guest may be called `$(reboot)`. */
static const char bash_end[] =
    "_scrubctl_names()\n"
    "{\n"
    "    case $1 in\n"
    "    @commands) printf '%s\\n' $_scrubctl_commands ;;\n"
    "    @*) scrubctl completion \"${1#@}\" 2>/dev/null ;;\n"
    "    *) printf '%s\\n' $1 ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_scrubctl()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb= n=0 skip= "
    "word i\n"
    "    local -a names\n"
    "    COMPREPLY=()\n"
    "    # bash takes --option=value apart.\n"
    "    if [ \"$cur\" = = ]; then\n"
    "        cur=\n"
    "    elif [ \"$before\" = = ] && ((COMP_CWORD > 1)); then\n"
    "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [ -n \"$skip\" ]; then\n"
    "            [ \"$word\" = = ] || skip=\n"
    "        elif [ \"$word\" = -- ]; then\n"
    "            :\n"
    "        elif [[ $word == -* ]]; then\n"
    "            _scrubctl_value \"$verb:$word\" >/dev/null && skip=1\n"
    "        elif [ -z \"$verb\" ]; then\n"
    "            verb=$word\n"
    "        else\n"
    "            n=$((n + 1))\n"
    "        fi\n"
    "    done\n"
    "    if word=$(_scrubctl_value \"$verb:$before\"); then\n"
    "        mapfile -t names < <(_scrubctl_names \"$word\")\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        mapfile -t names < <(_scrubctl_names \"$(_scrubctl_options \"$verb\")\")\n"
    "    elif [ -z \"$verb\" ]; then\n"
    "        mapfile -t names < <(_scrubctl_names @commands)\n"
    "    elif [ \"$n\" = 0 ]; then\n"
    "        mapfile -t names < <(_scrubctl_names \"$(_scrubctl_operand \"$verb\")\")\n"
    "    fi\n"
    "    for word in \"${names[@]}\"; do\n"
    "        [[ -n $word && $word == \"$cur\"* ]] && COMPREPLY+=(\"$(printf %q \"$word\")\")\n"
    "    done\n"
    "    return 0\n"
    "}\n"
    "complete -F _scrubctl scrubctl\n";

static void bash_options(FILE *out)
{
    fputs("_scrubctl_options()\n{\n    case $1 in\n", out);
    for (size_t i = 0; cmd_at(i) != NULL; i++) {
        const struct cmd *cmd = cmd_at(i);

        fprintf(out, "    %s) echo '", cmd->name);
        for (const struct cmd_option *o = cmd->options; o->name != NULL; o++)
            fprintf(out, "--%s ", o->name);
        fputs("--json --help' ;;\n", out);
    }
    fputs("    '') echo '--json --help --version' ;;\n    esac\n}\n\n", out);
}

static void bash_operands(FILE *out)
{
    fputs("_scrubctl_operand()\n{\n    case $1 in\n", out);
    for (size_t i = 0; cmd_at(i) != NULL; i++) {
        if (cmd_at(i)->completes != NULL)
            fprintf(out, "    %s) echo '%s' ;;\n", cmd_at(i)->name, cmd_at(i)->completes);
    }
    fputs("    esac\n}\n\n", out);
}

/* Fails where there is no such option that takes a value. */
static void bash_values(FILE *out)
{
    fputs("_scrubctl_value()\n{\n    case $1 in\n", out);
    for (size_t i = 0; cmd_at(i) != NULL; i++) {
        for (const struct cmd_option *o = cmd_at(i)->options; o->name != NULL; o++) {
            if (o->arg != NULL)
                fprintf(out, "    %s:--%s) echo '%s' ;;\n", cmd_at(i)->name, o->name,
                        words_of(o->arg));
        }
    }
    fputs("    *) return 1 ;;\n    esac\n}\n\n", out);
}

void completion_bash(FILE *out)
{
    fprintf(out, header, "bash", "bash");
    fputs("\n_scrubctl_commands='", out);
    for (size_t i = 0; cmd_at(i) != NULL; i++)
        fprintf(out, "%s%s", i > 0 ? " " : "", cmd_at(i)->name);
    fputs("'\n\n", out);
    bash_options(out);
    bash_operands(out);
    bash_values(out);
    fputs(bash_end, out);
}

/* text within single quotes, where zsh's own functions find nothing special in it. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr(":[]\\", *text) != NULL)
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void zsh_option(FILE *out, const struct cmd_option *o)
{
    fprintf(out, "            '--%s%s[", o->name, o->arg != NULL ? "=" : "");
    zsh_text(out, o->help);
    fputs("]", out);
    if (o->arg != NULL)
        fprintf(out, ":%s:(%s)", o->arg, words_of(o->arg));
    fputs("' \\\n", out);
}

static void zsh_operands(FILE *out, const struct cmd *cmd)
{
    const char *what = cmd->completes;

    if (cmd->max_operands == 0)
        return;
    if (what == NULL)
        fputs(" '1: : '", out);
    else if (what[0] == '@')
        fprintf(out, " '1: :_scrubctl_%s'", what + 1);
    else
        fprintf(out, " '1: :(%s)'", what);
}

static const char zsh_names[] =
    "_scrubctl_names() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(_call_program names scrubctl completion $1 2>/dev/null)\"})\n"
    "    (( $#names )) && compadd -a names\n"
    "}\n"
    "_scrubctl_domains() { _scrubctl_names domains }\n"
    "_scrubctl_jobs() { _scrubctl_names jobs }\n"
    "\n";

static const char zsh_begin[] = "_scrubctl() {\n"
                                "    local state line\n"
                                "    _arguments -C \\\n"
                                "        '--json[write JSON, for programs]' \\\n"
                                "        '(- *)--help[a help text]' \\\n"
                                "        '(- *)--version[the version of scrubctl]' \\\n"
                                "        '1: :_scrubctl_commands' '*:: :->rest'\n"
                                "    [ \"$state\" = rest ] || return\n"
                                "    case $line[1] in\n";

void completion_zsh(FILE *out)
{
    fputs("#compdef scrubctl\n", out);
    fprintf(out, header, "zsh", "zsh");
    fputs("\n_scrubctl_commands() {\n    local -a commands\n    commands=(\n", out);
    for (size_t i = 0; cmd_at(i) != NULL; i++) {
        fprintf(out, "        '%s:", cmd_at(i)->name);
        zsh_text(out, cmd_at(i)->summary);
        fputs("'\n", out);
    }
    fputs("    )\n    _describe command commands\n}\n", out);
    fputs(zsh_names, out);
    fputs(zsh_begin, out);
    for (size_t i = 0; cmd_at(i) != NULL; i++) {
        fprintf(out, "    %s)\n        _arguments \\\n", cmd_at(i)->name);
        for (const struct cmd_option *o = cmd_at(i)->options; o->name != NULL; o++)
            zsh_option(out, o);
        fputs("            '--json[write JSON, for programs]' '--help[a help text]'", out);
        zsh_operands(out, cmd_at(i));
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n\n_scrubctl \"$@\"\n", out);
}
