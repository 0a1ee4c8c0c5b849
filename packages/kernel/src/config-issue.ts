import type { z } from 'zod';
import { closest, knownKeys } from './known-keys.ts';

/** One fault of a config in words for its author: where, what was expected, what was there. */
export interface ConfigIssue {
  readonly path: readonly PropertyKey[];
  /** Path to look up in the file: an unknown key's own, else `path`. */
  readonly locate: readonly PropertyKey[];
  readonly message: string;
  readonly remedy?: string;
}

type Issue = z.core.$ZodIssue;

/** Reads what a schema refused. Of a union's branches the one that got furthest is what the author meant. */
export function configIssues(error: z.ZodError, config: unknown, schema?: z.ZodType): ConfigIssue[] {
  return error.issues.map((issue) => describe(issue, config, [], schema));
}

function describe(issue: Issue, config: unknown, prefix: readonly PropertyKey[], schema: z.ZodType | undefined): ConfigIssue {
  const path = [...prefix, ...issue.path];
  if (issue.code === 'invalid_union') {
    const [deepest] = issue.errors.flat().toSorted((a, b) => b.path.length - a.path.length);
    const keys = issue.errors.flat().find(({ code }) => code === 'unrecognized_keys');
    const meant = keys ?? (deepest !== undefined && deepest.path.length > 0 ? deepest : undefined);
    if (meant !== undefined) return describe(meant, config, path, schema);
  }
  if (issue.code === 'unrecognized_keys') {
    const meant = schema && closest(issue.keys[0] ?? '', knownKeys(schema, path));
    return {
      path,
      locate: [...path, issue.keys[0] ?? ''],
      message: `unknown key${issue.keys.length > 1 ? 's' : ''} ${issue.keys.join(', ')}`,
      remedy: meant === undefined ? 'remove it or correct its spelling' : `did you mean ${meant}?`,
    };
  }
  const found = path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined),
    config,
  );
  if (found === undefined) return { path, locate: path, message: `missing: ${issue.message.replace(/, received undefined$/, '')}` };
  return { path, locate: path, message: typeof found === 'object' ? issue.message : `${issue.message}, got ${JSON.stringify(found)}` };
}
