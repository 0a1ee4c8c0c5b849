import type { Finding, Findings } from './probe.ts';

const maxExamples = 60;

/** Prints the findings by check, and the totals. Returns the number of findings. */
export function reportFindings(
  { all, comparisons, requests }: Findings,
  { kinds, print }: { readonly kinds: number; readonly print: (line: string) => void },
): number {
  const classes = new Map<string, Finding[]>();
  for (const each of all) {
    const name = `${each.check}: ${each.what} ${each.differences[0]?.path ?? ''}`;
    classes.set(name, [...(classes.get(name) ?? []), each]);
  }
  for (const [name, [first, ...others]] of [...classes].slice(0, maxExamples)) {
    if (first === undefined) continue;
    const kindNames = [...new Set([first, ...others].map(({ kind }) => kind))];
    print(`✖ ${others.length + 1} x ${name} (${kindNames.slice(0, 8).join(', ')}${kindNames.length > 8 ? ', ...' : ''})\n${textOf(first)}`);
  }
  if (classes.size > maxExamples) print(`... and ${classes.size - maxExamples} more classes`);
  print(`${requests} requests, ${comparisons} comparisons of ${kinds} kinds, ${all.length} differences in ${classes.size} classes`);
  return all.length;
}

function textOf({ request, differences }: Finding): string {
  const lines = differences.slice(0, 3).map(({ part, path, reference, subject }) => `    ${part} ${path}: ${reference} | ${subject}`);
  return [`  ${request}`, ...lines].join('\n');
}
