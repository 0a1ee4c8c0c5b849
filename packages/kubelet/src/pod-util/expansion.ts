/**
 * Replaces `$(NAME)` with the result of `lookup`, and `$$` with `$`. Leaves `$(NAME)` unchanged if `lookup` returns undefined
 * (https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/).
 */
export function expand(text: string, lookup: (name: string) => string | undefined): string {
  if (!text.includes('$')) return text;
  let result = '';
  let from = 0;
  for (let at = text.indexOf('$'); at >= 0 && at < text.length - 1; at = text.indexOf('$', from)) {
    result += text.slice(from, at);
    const next = text[at + 1];
    const end = next === '(' ? text.indexOf(')', at + 2) : -1;
    if (next === '$') {
      result += '$';
      from = at + 2;
    } else if (next === '(' && end >= 0) {
      const name = text.slice(at + 2, end);
      result += lookup(name) ?? `$(${name})`;
      from = end + 1;
    } else if (next === '(') {
      result += '$(';
      from = at + 2;
    } else {
      result += `$${next}`;
      from = at + 2;
    }
  }
  return result + text.slice(from);
}
