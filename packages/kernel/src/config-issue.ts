import type { z } from 'zod';
import { closestWord, knownKeys } from './known-keys.ts';

/** One error in a config, worded for its author: the path, the expected type, the value. */
export interface ConfigIssue {
  readonly path: readonly PropertyKey[];
  /** The path to locate in the file: for an unknown key the key itself, else `path`. */
  readonly sourcePath: readonly PropertyKey[];
  readonly message: string;
  readonly remedy?: string;
}

type Issue = z.core.$ZodIssue;

/** Converts the issues that a schema reported. Of the branches of a union, the one that matched deepest is taken as intended. */
export function describeConfigIssues(error: z.ZodError, config: unknown, schema?: z.ZodType): ConfigIssue[] {
  return error.issues.map((issue) => describe(issue, config, [], schema));
}

function describe(issue: Issue, config: unknown, prefix: readonly PropertyKey[], schema: z.ZodType | undefined): ConfigIssue {
  const path = [...prefix, ...issue.path];
  if (issue.code === 'invalid_union') {
    const [deepest] = issue.errors.flat().toSorted((a, b) => b.path.length - a.path.length);
    const keys = issue.errors.flat().find(({ code }) => code === 'unrecognized_keys');
    const intended = keys ?? (deepest !== undefined && deepest.path.length > 0 ? deepest : undefined);
    if (intended !== undefined) return describe(intended, config, path, schema);
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
