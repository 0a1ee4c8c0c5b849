import type { z } from 'zod';
import { closestWord, knownKeys } from './known-keys.ts';

/** An error in a plugin's config, formulated for the author of the config: path, expected type and actual value. */
export interface ConfigIssue {
  readonly path: readonly PropertyKey[];
  /** The path of the value to mark in the file: the key itself if the key is unknown, otherwise `path`. */
  readonly sourcePath: readonly PropertyKey[];
  readonly message: string;
  readonly remedy?: string;
}

type Issue = z.core.$ZodIssue;

/** Converts the issues of a zod error. For a union, reports the issues of the branch that matched the config most deeply. */
export function describeConfigIssues(error: z.ZodError, config: unknown, schema?: z.ZodType): ConfigIssue[] {
  return error.issues.map((issue) => describe(issue, { config, prefix: [], schema }));
}

function describe(
  issue: Issue,
  { config, prefix, schema }: { readonly config: unknown; readonly prefix: readonly PropertyKey[]; readonly schema: z.ZodType | undefined },
): ConfigIssue {
  const path = [...prefix, ...issue.path];
  if (issue.code === 'invalid_union') {
    const [deepest] = issue.errors.flat().toSorted((a, b) => b.path.length - a.path.length);
    const keys = issue.errors.flat().find(({ code }) => code === 'unrecognized_keys');
    const intended = keys ?? (deepest !== undefined && deepest.path.length > 0 ? deepest : undefined);
    if (intended !== undefined) return describe(intended, { config, prefix: path, schema });
  }
  if (issue.code === 'unrecognized_keys') {
    const suggestion = schema && closestWord(issue.keys[0] ?? '', knownKeys(schema, path));
    return {
      path,
      sourcePath: [...path, issue.keys[0] ?? ''],
      message: `unknown key${issue.keys.length > 1 ? 's' : ''} ${issue.keys.join(', ')}`,
      remedy: suggestion === undefined ? 'remove it or correct its spelling' : `did you mean ${suggestion}?`,
    };
  }
  const found = path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? (value as Record<PropertyKey, unknown>)[key] : undefined),
    config,
  );
  if (found === undefined) return { path, sourcePath: path, message: `missing: ${issue.message.replace(/, received undefined$/, '')}` };
  return { path, sourcePath: path, message: typeof found === 'object' ? issue.message : `${issue.message}, got ${JSON.stringify(found)}` };
}
