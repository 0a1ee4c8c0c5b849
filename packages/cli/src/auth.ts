import type { AuthorizationAnswer, AuthorizationQuestion } from '@oarlock/cluster/authorization-path';
import { adminAccess } from './admin-access.ts';
import { CommandError, exitCodes } from './exit.ts';

export interface WhyOptions {
  readonly dataDir: string;
  readonly namespace: string;
  readonly group: readonly string[];
  readonly output: string;
}

const account = /^system:serviceaccount:([^:]+):[^:]+$/;

/** Groups that somebody of that name is in anyway. */
function impliedGroups(user: string): readonly string[] {
  if (user === 'system:anonymous') return ['system:unauthenticated'];
  const namespace = account.exec(user)?.[1];
  return [
    ...(namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]),
    ...(user.startsWith('system:node:') ? ['system:nodes'] : []),
    'system:authenticated',
  ];
}

/** `deployments.apps/scale` or `/metrics`, and a name, as a question. */
export function questionOf(
  user: string,
  verb: string,
  what: string,
  name: string,
  { namespace, group }: Pick<WhyOptions, 'namespace' | 'group'>,
): AuthorizationQuestion {
  const who = { user, groups: [...new Set([...group, ...impliedGroups(user)])], verb };
  if (what.startsWith('/')) return { ...who, path: what };
  const [full = '', subresource = ''] = what.split('/');
  const [resource = '', ...rest] = full.split('.');
  return { ...who, group: rest.join('.'), resource, subresource, namespace, name };
}

/** Says which authorizer allows or denies something, and why. Exit code 1 when it is not allowed. */
export async function why(user: string, verb: string, what: string, name: string | undefined, options: WhyOptions): Promise<void> {
  if (options.output !== 'text' && options.output !== 'json') throw new CommandError('--output is text or json', exitCodes.usage);
  const access = await adminAccess(options.dataDir);
  try {
    const answer = (await access.client.raw(
      'POST',
      '/oarlock/v1/authorization',
      questionOf(user, verb, what, name ?? '', options),
    )) as AuthorizationAnswer;
    console.log(options.output === 'json' ? JSON.stringify(answer, null, 2) : textOf(answer));
    if (!answer.allowed) process.exitCode = exitCodes.failed;
  } finally {
    access.close();
  }
}

export function textOf({ allowed, steps }: AuthorizationAnswer): string {
  const width = Math.max(0, ...steps.map(({ plugin }) => plugin.length));
  return [
    allowed ? 'yes' : 'no',
    ...steps.map(({ plugin, decision, because = '' }) => `  ${plugin.padEnd(width)}  ${decision}${because === '' ? '' : `: ${because}`}`),
  ].join('\n');
}
