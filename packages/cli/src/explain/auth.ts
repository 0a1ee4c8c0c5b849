import { readFile } from 'node:fs/promises';
import { isObject } from '@oarlock/api/json/json';
import { parseAccessTarget } from '@oarlock/api/rbac/access-target';
import { impliedGroups } from '@oarlock/api/rbac/implied-groups';
import { errorText } from '@oarlock/primitives/error-text';
import { fileErrorText } from '@oarlock/primitives/os/file-error';
import { parse } from 'yaml';
import type { AuthorizationTrace, AuthorizationQuery } from '@oarlock/cluster/paths/authorization-path';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { printFacts, type OutputFormat } from '../common/output.ts';

export interface WhyOptions {
  readonly dataDir: string;
  readonly namespace: string;
  readonly group: readonly string[];
  readonly output: OutputFormat;
  readonly timeout: number;
  /** File with the object that the action writes. */
  readonly filename?: string;
}

/** The verb, the resource and the name to which access is requested. */
export interface AuthorizationQueryOptions {
  readonly verb: string;
  readonly target: string;
  readonly name: string;
}

/** Converts `deployments.apps/scale` or `/metrics` to the attributes of a request to authorize. */
export function authorizationQuery(
  user: string,
  { verb, target, name }: AuthorizationQueryOptions,
  { namespace, group }: Pick<WhyOptions, 'namespace' | 'group'>,
): AuthorizationQuery {
  const subject = { user, groups: [...new Set([...group, ...impliedGroups(user)])], verb };
  const parsed = parseAccessTarget(target);
  return 'path' in parsed ? { ...subject, ...parsed } : { ...subject, ...parsed, namespace, name };
}

/** Prints the authorizer that allows or denies an action, and its reason. Sets exit code 1 if the action is not allowed. */
export async function why(
  user: string,
  verb: string,
  { target, name, options }: { readonly target: string; readonly name: string | undefined; readonly options: WhyOptions },
): Promise<void> {
  const query = { ...authorizationQuery(user, { verb, target, name: name ?? '' }, options), ...(await objectOf(options)) };
  const answer = await withCluster(options, ({ client }) => client.raw('POST', '/oarlock/v1/authorization', query));
  await printFacts(options.output, answer as AuthorizationTrace, textOf);
  if (!(answer as AuthorizationTrace).allowed) process.exitCode = exitCodes.failed;
}

/** Reads the object of `--filename`. @throws CommandError if the file is not an object */
async function objectOf({ filename }: WhyOptions): Promise<Pick<AuthorizationQuery, 'object'>> {
  if (filename === undefined) return {};
  const text = await readFile(filename, 'utf8').catch((cause: unknown) => {
    throw new CommandError(`--filename: ${fileErrorText(cause)}`, exitCodes.usage);
  });
  let object: unknown;
  try {
    object = parse(text, { prettyErrors: false, logLevel: 'error' });
  } catch (cause) {
    throw new CommandError(`--filename: ${filename} is not YAML: ${errorText(cause)}`, exitCodes.usage);
  }
  if (!isObject(object) || typeof object['apiVersion'] !== 'string' || typeof object['kind'] !== 'string')
    throw new CommandError(`--filename: ${filename} has no object with apiVersion and kind`, exitCodes.usage);
  return { object: object as { apiVersion: string; kind: string } };
}

export function textOf({ allowed, steps }: AuthorizationTrace): string {
  const width = Math.max(0, ...steps.map(({ plugin }) => plugin.length));
  return [
    allowed ? 'yes' : 'no',
    ...steps.map(({ plugin, decision, because = '' }) => `  ${plugin.padEnd(width)}  ${decision}${because === '' ? '' : `: ${because}`}`),
  ].join('\n');
}
