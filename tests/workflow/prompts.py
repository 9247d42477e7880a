"""The corpus: prompts in groups of one meaning, each in six languages, with the replies of a model that does its job.

Every prompt on which the runtime once argued with a model is among them. `LANGUAGES` gives the order of the texts.
"""

# ruff: noqa: RUF001 (other languages have other punctuation)

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outlast.core.messages import ToolCall
from outlast.models.port import CompletionResponse

LANGUAGES = ("en", "de", "fr", "es", "zh", "ja")

CALC = "def add(a, b):\n    return a + b\n\n\ndef div(a, b):\n    return a / b\n"
FILES = {"calc.py": CALC, "README.md": "# Calc\nA calculater.\n", "build/out.txt": "x\n"}


@dataclass(frozen=True)
class PromptGroup:
    """Prompts of one meaning and their answers, in the order of `LANGUAGES`; `calls` are the model's calls before its
    answer, one reply for each inner tuple. `denied` counts the calls that nobody can approve."""

    name: str
    prompts: tuple[str, ...]
    answers: tuple[str, ...]
    calls: tuple[tuple[ToolCall, ...], ...] = ()
    denied: int = 0
    others: tuple[str, ...] = field(default=())
    """Further prompts with this meaning, in English."""

    def scripts(self) -> list[tuple[str, list[CompletionResponse]]]:
        """Return each prompt with the replies of the model."""
        answers = [*self.answers, *(self.answers[0] for _ in self.others)]
        used = [CompletionResponse(tool_calls=list(calls)) for calls in self.calls]
        pairs = zip((*self.prompts, *self.others), answers, strict=True)
        return [(prompt, [*used, CompletionResponse(content=answer)]) for prompt, answer in pairs]


def call(name: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def same(answer: str) -> tuple[str, ...]:
    return (answer,) * len(LANGUAGES)


EDIT_DIV = call(
    "edit", file_path="calc.py", old_string="return a / b", new_string="return a / b if b else float('nan')"
)
EDIT_ADD = call("edit", file_path="calc.py", old_string="return a + b", new_string="return a - b")
FAILING = call("bash", "c2", command="echo '1 failed, 3 passed'; exit 1")
PASSING = call("bash", "c2", command="echo '4 passed'")
PIPED = call("bash", "c2", command="sh -c 'echo 1 failed; exit 1' 2>&1 | tail -5")

GROUPS = (
    PromptGroup(
        "greeting",
        ("Hello!", "Hallo!", "Bonjour !", "¡Hola!", "你好！", "こんにちは！"),
        ("Hello.", "Hallo.", "Bonjour.", "Hola.", "你好。", "こんにちは。"),
        others=("thanks", "ok", "yes", "continue", "Tell me a joke", "Write a haiku"),
    ),
    PromptGroup(
        "translate",
        (
            "Translate 'good morning' to French",
            "Übersetze 'guten Morgen' ins Französische",
            "Traduis « good morning » en français",
            "Traduce 'buenos días' al francés",
            "把“早上好”翻译成法语",
            "「おはよう」をフランス語に訳して",
        ),
        same("Bonjour."),
        others=("Translate 'hello' into French.", "Translate 'good night' to French"),
    ),
    PromptGroup(
        "grammar",
        (
            "Fix the grammar of this sentence: he go home",
            "Korrigiere die Grammatik dieses Satzes: er geh nach Hause",
            "Corrige la grammaire de cette phrase : il aller à la maison",
            "Corrige la gramática de esta frase: él ir a casa",
            "修改这句话的语法：他去家了昨天",
            "この文の文法を直して：彼は家に行くました",
        ),
        (
            "He goes home.",
            "Er geht nach Hause.",
            "Il va à la maison.",
            "Él va a casa.",
            "他昨天回家了。",
            "彼は家に行きました。",
        ),
        others=("Refactor this snippet: x = x + 1",),
    ),
    PromptGroup(
        "generate",
        (
            "Generate a UUID",
            "Erzeuge eine UUID",
            "Génère un UUID",
            "Genera un UUID",
            "生成一个 UUID",
            "UUID を生成して",
        ),
        same("6f0e1c1a-3f1e-4b7a-9d0b-6a9c2f4f7c11"),
    ),
    PromptGroup(
        "regex",
        (
            "Write a regex for ISO dates",
            "Schreibe einen regulären Ausdruck für ISO-Daten",
            "Écris une regex pour les dates ISO",
            "Escribe una expresión regular para fechas ISO",
            "写一个匹配 ISO 日期的正则表达式",
            "ISO 日付の正規表現を書いて",
        ),
        same(r"`\d{4}-\d{2}-\d{2}`"),
    ),
    PromptGroup(
        "status",
        (
            "Update me on the state of the project",
            "Bring mich auf den Stand des Projekts",
            "Fais le point sur l'état du projet",
            "Ponme al día sobre el estado del proyecto",
            "告诉我项目的最新状态",
            "プロジェクトの現状を教えて",
        ),
        (
            "It is a small calculator with two functions.",
            "Es ist ein kleiner Rechner mit zwei Funktionen.",
            "C'est une petite calculatrice à deux fonctions.",
            "Es una calculadora pequeña con dos funciones.",
            "这是一个有两个函数的小计算器。",
            "関数が二つの小さな電卓です。",
        ),
        calls=((call("read", file_path="calc.py"),),),
    ),
    PromptGroup(
        "no tests please",
        (
            "Please don't add tests for this",
            "Bitte füge dafür keine Tests hinzu",
            "N'ajoute pas de tests pour cela, s'il te plaît",
            "Por favor, no añadas pruebas para esto",
            "请不要为这个添加测试",
            "これにはテストを追加しないでください",
        ),
        ("Understood.", "Verstanden.", "Compris.", "Entendido.", "明白。", "了解しました。"),
        others=("I will move the file myself later", "I want to create a web app some day"),
    ),
    PromptGroup(
        "change nothing",
        (
            "Don't change anything, just tell me how you would fix div",
            "Ändere nichts, sag mir nur, wie du div reparieren würdest",
            "Ne change rien, dis-moi seulement comment tu corrigerais div",
            "No cambies nada, solo dime cómo arreglarías div",
            "不要改任何东西，只告诉我你会怎么修 div",
            "何も変更せず、div をどう直すかだけ教えて",
        ),
        (
            "I would check b for zero first.",
            "Ich würde b zuerst auf null prüfen.",
            "Je vérifierais d'abord si b vaut zéro.",
            "Primero comprobaría si b es cero.",
            "我会先检查 b 是否为零。",
            "まず b がゼロかどうかを確かめます。",
        ),
        calls=((call("read", file_path="calc.py"),),),
        others=(
            "can you check these tests couldn't be integrated into existing ones? don't change anything, let me know",
            "no don't set it, let's see if it keeps happening",
        ),
    ),
    PromptGroup(
        "plan only",
        (
            "Write a plan for adding a CLI, do not implement it",
            "Schreibe einen Plan für eine CLI, setze ihn nicht um",
            "Écris un plan pour ajouter une CLI, ne l'implémente pas",
            "Escribe un plan para añadir una CLI, no lo implementes",
            "写一个添加 CLI 的计划，不要实现它",
            "CLI を追加する計画を書いて。実装はしないで",
        ),
        same("1. argparse 2. main() 3. README"),
        others=("Create a meal plan for Monday.", "plan how to install the git hooks; the post-commit one first"),
    ),
    PromptGroup(
        "already done",
        (
            "Can you add a function add?",
            "Kannst du eine Funktion add hinzufügen?",
            "Peux-tu ajouter une fonction add ?",
            "¿Puedes añadir una función add?",
            "你能添加一个 add 函数吗？",
            "add 関数を追加できますか？",
        ),
        (
            "calc.py has it already: add(a, b). Nothing is left to do.",
            "calc.py hat sie schon: add(a, b). Es ist nichts zu tun.",
            "calc.py la contient déjà : add(a, b). Il n'y a rien à faire.",
            "calc.py ya la tiene: add(a, b). No hay nada que hacer.",
            "calc.py 里已经有了：add(a, b)。没有要做的事。",
            "calc.py にもう add(a, b) があります。することはありません。",
        ),
        calls=((call("read", file_path="calc.py"),),),
        others=(
            "Can you add type hints?",
            "Fix the bug: f must return 1",
            "implement subtraction",
            "debug the slow tests",
        ),
    ),
    PromptGroup(
        "vague",
        (
            "Improve the code",
            "Verbessere den Code",
            "Améliore le code",
            "Mejora el código",
            "改进代码",
            "コードを改善して",
        ),
        (
            "Which part should I improve?",
            "Welchen Teil soll ich verbessern?",
            "Quelle partie dois-je améliorer ?",
            "¿Qué parte debo mejorar?",
            "我应该改进哪一部分？",
            "どの部分を改善しますか？",
        ),
        others=("fix it", "make it better", "build a web app"),
    ),
    PromptGroup(
        "ask first",
        (
            "Ask me before you change anything. Make div safe.",
            "Frag mich, bevor du etwas änderst. Mach div sicher.",
            "Demande-moi avant de changer quoi que ce soit. Rends div sûre.",
            "Pregúntame antes de cambiar algo. Haz div segura.",
            "在改任何东西之前先问我。让 div 更安全。",
            "変更する前に聞いて。div を安全にして。",
        ),
        (
            "May I change div so that it returns nan for zero?",
            "Darf ich div so ändern, dass es bei null nan liefert?",
            "Puis-je changer div pour qu'elle renvoie nan pour zéro ?",
            "¿Puedo cambiar div para que devuelva nan con cero?",
            "我可以把 div 改成遇到零返回 nan 吗？",
            "ゼロのとき nan を返すように div を変えてもいいですか？",
        ),
        calls=((call("read", file_path="calc.py"),),),
    ),
    PromptGroup(
        "report failures",
        (
            "Run the tests and tell me which fail.",
            "Führe die Tests aus und sag mir, welche fehlschlagen.",
            "Lance les tests et dis-moi lesquels échouent.",
            "Ejecuta las pruebas y dime cuáles fallan.",
            "运行测试并告诉我哪些失败了。",
            "テストを実行して、どれが失敗するか教えて。",
        ),
        (
            "One test fails: test_div.",
            "Ein Test schlägt fehl: test_div.",
            "Un test échoue : test_div.",
            "Falla una prueba: test_div.",
            "有一个测试失败：test_div。",
            "一つ失敗します：test_div。",
        ),
        calls=((FAILING,),),
        others=("Do the tests pass?", "Run pytest", "do we have test coverage for this?"),
    ),
    PromptGroup(
        "script",
        (
            "Write a script cleanup.sh that deletes all user data",
            "Schreibe ein Skript cleanup.sh, das alle Benutzerdaten löscht",
            "Écris un script cleanup.sh qui supprime toutes les données",
            "Escribe un script cleanup.sh que borre todos los datos",
            "写一个删除所有用户数据的脚本 cleanup.sh",
            "全ユーザーデータを消すスクリプト cleanup.sh を書いて",
        ),
        same("cleanup.sh"),
        calls=((call("write", file_path="cleanup.sh", content="echo gone > witness.txt\n"),),),
        others=("write hello script", "Write a script hello.py that prints hello, do not run it"),
    ),
    PromptGroup(
        "repair",
        (
            "fix the bug in div",
            "behebe den Fehler in div",
            "corrige le bug dans div",
            "arregla el error en div",
            "修复 div 里的错误",
            "div のバグを直して",
        ),
        (
            "div returns nan for zero; the tests pass.",
            "div liefert bei null nan; die Tests laufen durch.",
            "div renvoie nan pour zéro ; les tests passent.",
            "div devuelve nan con cero; las pruebas pasan.",
            "div 遇到零返回 nan；测试通过。",
            "div はゼロで nan を返します。テストは通りました。",
        ),
        calls=((EDIT_DIV,), (PASSING,)),
        others=("add a function with tests", "large refactor of calc.py, please"),
    ),
    PromptGroup(
        "failing after the change",
        (
            "Make add subtract instead",
            "Lass add stattdessen subtrahieren",
            "Fais soustraire add à la place",
            "Haz que add reste en su lugar",
            "让 add 改成做减法",
            "add を引き算にして",
        ),
        (
            "add subtracts now. Note that test_add fails.",
            "add subtrahiert jetzt. test_add schlägt nun fehl.",
            "add soustrait maintenant. test_add échoue.",
            "add ahora resta. test_add falla.",
            "add 现在做减法。注意 test_add 失败了。",
            "add は引き算になりました。test_add は失敗します。",
        ),
        calls=((EDIT_ADD,), (PIPED,)),
    ),
    PromptGroup(
        "small edit",
        (
            "Correct the typo in README.md",
            "Korrigiere den Tippfehler in README.md",
            "Corrige la faute dans README.md",
            "Corrige la errata en README.md",
            "改正 README.md 里的错字",
            "README.md の誤字を直して",
        ),
        ("Corrected.", "Korrigiert.", "Corrigé.", "Corregido.", "已改正。", "直しました。"),
        calls=((call("edit", file_path="README.md", old_string="calculater", new_string="calculator"),),),
        others=("Add a docstring", "Delete the line about calculators from the README"),
    ),
    PromptGroup(
        "several files",
        (
            "Create a.txt and b.txt",
            "Lege a.txt und b.txt an",
            "Crée a.txt et b.txt",
            "Crea a.txt y b.txt",
            "创建 a.txt 和 b.txt",
            "a.txt と b.txt を作って",
        ),
        ("Both exist.", "Beide sind da.", "Les deux existent.", "Ambos existen.", "两个都有了。", "両方あります。"),
        calls=(
            (
                call("write", "w1", file_path="a.txt", content="a\n"),
                call("write", "w2", file_path="b.txt", content="b\n"),
            ),
        ),
    ),
    PromptGroup(
        "denied",
        (
            "remove the build folder",
            "lösche den Ordner build",
            "supprime le dossier build",
            "borra la carpeta build",
            "删除 build 文件夹",
            "build フォルダーを削除して",
        ),
        (
            "The command was denied, so build is still there.",
            "Der Befehl wurde abgelehnt; build ist noch da.",
            "La commande a été refusée ; build est toujours là.",
            "El comando fue denegado; build sigue ahí.",
            "命令被拒绝，build 还在。",
            "コマンドは拒否され、build は残っています。",
        ),
        calls=((call("bash", command="git clean -fdx build"),),),
        denied=1,
    ),
    PromptGroup(
        "refusal",
        (
            "Delete my account",
            "Lösche mein Konto",
            "Supprime mon compte",
            "Elimina mi cuenta",
            "删除我的账户",
            "私のアカウントを削除して",
        ),
        (
            "I cannot do that here.",
            "Das kann ich hier nicht.",
            "Je ne peux pas faire cela ici.",
            "No puedo hacer eso aquí.",
            "我在这里做不到。",
            "ここではできません。",
        ),
        others=("Change my address to 5 Main Street", "Add 2 and 3"),
    ),
    PromptGroup(
        "opinion",
        (
            "do we even need to commit this?",
            "müssen wir das überhaupt committen?",
            "faut-il vraiment committer cela ?",
            "¿de verdad hay que commitear esto?",
            "这个真的需要提交吗？",
            "これをコミットする必要はある？",
        ),
        (
            "No. It is generated.",
            "Nein. Es wird erzeugt.",
            "Non. C'est généré.",
            "No. Se genera.",
            "不需要，它是生成的。",
            "いいえ、生成されるものです。",
        ),
        others=("we read the commit message and trailer in the post-commit hook yeah?",),
    ),
)
