/** The longest argument or variable that Linux accepts in execve: MAX_ARG_STRLEN, 32 pages. */
const maxLength = 128 * 1024;

/**
 * The characters that references may add to the environment and command of one container. Variables can refer to variables, and each may double the
 * previous one; without a bound, 30 of them would take all memory of the kubelet. Linux accepts 6 MiB for all arguments and variables of a process.
 */
export interface ExpansionBudget {
  left: number;
}
export const newExpansionBudget = (): ExpansionBudget => ({ left: 6 * 1024 * 1024 });

/**
 * Replaces `$(NAME)` with the result of `lookup`, and `$$` with `$`. Leaves `$(NAME)` unchanged if `lookup` returns undefined
 * (https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/).
 * @throws Error if the result is longer than Linux accepts, or than what is left of the budget
 */
export function expand(text: string, lookup: (name: string) => string | undefined, budget = newExpansionBudget()): string {
  if (!text.includes('$')) return text;
  const limit = Math.min(maxLength, budget.left);
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
    if (result.length > limit) throw new Error(tooLong);
  }
  result += text.slice(from);
  if (result.length > limit) throw new Error(tooLong);
  budget.left -= result.length;
  return result;
}
const tooLong = `references to variables expand to more than ${maxLength / 1024} KiB in one value, or 6 MiB in all`;
