import type { IncomingHttpHeaders } from 'node:http';
import type { StatusError } from '@oarlock/api/status';
import { anonymous, type Identity } from '@oarlock/spi/authn';
import type { Authorizer, ResourceAttributes } from '@oarlock/spi/authz';
import { refusalOf } from './http-authorization.ts';
import { internalError } from './http-errors.ts';

const extraPrefix = 'impersonate-extra-';
const maxValues = 256;
const serviceAccount = /^system:serviceaccount:([^:]+):([^:]+)$/;

type Asked = Pick<ResourceAttributes, 'group' | 'version' | 'resource' | 'subresource' | 'namespace' | 'name'>;
const asked = (resource: string, name: string, more: Partial<Asked> = {}): Asked => ({
  group: '',
  version: 'v1',
  resource,
  subresource: '',
  namespace: '',
  name,
  ...more,
});
const authentication = { group: 'authentication.k8s.io', version: 'v1' };

/**
 * Whom the request is to be taken as coming from: the sender, or whoever its `Impersonate-*` headers name if the sender may
 * impersonate each part of that. Of headers that come more than once, the values are asked for one by one.
 */
export async function impersonated(
  headers: IncomingHttpHeaders,
  sender: Identity,
  chain: readonly Authorizer[],
): Promise<Identity | StatusError> {
  const wanted = wantedBy(headers);
  if (wanted === undefined) return sender;
  const { user, uid, groups, extra } = wanted;
  const count = groups.length + Object.values(extra).reduce((sum, values) => sum + values.length, 0);
  if (count > maxValues) return internalError(`more than ${maxValues} groups and extra values to impersonate`);
  if (user === undefined) return internalError(`requested ${describe(wanted)} without impersonating a user`);

  const account = serviceAccount.exec(user);
  const requests: Asked[] = [
    account === null ? asked('users', user) : asked('serviceaccounts', account[2] ?? '', { namespace: account[1] ?? '' }),
  ];
  for (const group of groups) requests.push(asked('groups', group));
  for (const [key, values] of Object.entries(extra))
    for (const value of values) requests.push(asked('userextras', value, { ...authentication, subresource: key }));
  if (uid !== undefined) requests.push(asked('uids', uid, authentication));
  for (const request of requests) {
    const refusal = await refusalOf(chain, { kind: 'resource', identity: sender, verb: 'impersonate', ...request });
    if (refusal !== undefined) return refusal;
  }
  return {
    name: user,
    groups: withImpliedGroups(user, account?.[1], groups),
    ...(uid !== undefined && { uid }),
    ...(Object.keys(extra).length > 0 && { extra }),
  };
}

interface Wanted {
  readonly user: string | undefined;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

function wantedBy(headers: IncomingHttpHeaders): Wanted | undefined {
  const extra: Record<string, string[]> = {};
  let any = false;
  for (const name in headers) {
    if (!name.startsWith('impersonate-')) continue;
    any = true;
    if (name.startsWith(extraPrefix)) extra[unescapeKey(name.slice(extraPrefix.length))] = valuesOf(headers[name]);
  }
  if (!any) return undefined;
  const single = (name: string) => headers[name]?.toString() || undefined;
  return { user: single('impersonate-user'), uid: single('impersonate-uid'), groups: valuesOf(headers['impersonate-group']), extra };
}

/** HTTP joins repeated headers with commas, and so one value with a comma in it cannot be told from two: both have to be allowed. */
const valuesOf = (header: string | readonly string[] | undefined): string[] =>
  header === undefined ? [] : typeof header === 'string' ? header.split(',').map((part) => part.trim()) : [...header];

/** Keys that are no header names come percent-encoded. */
function unescapeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

function describe({ uid, groups, extra }: Wanted): string {
  return (
    [
      ...groups.map((name) => `groups/${name}`),
      ...Object.keys(extra).map((key) => `userextras/${key}`),
      ...(uid === undefined ? [] : [`uids/${uid}`]),
    ].join(', ') || 'impersonation'
  );
}

function withImpliedGroups(user: string, namespace: string | undefined, groups: readonly string[]): readonly string[] {
  if (user === anonymous.name) return groups.includes('system:unauthenticated') ? groups : [...groups, 'system:unauthenticated'];
  const implied =
    namespace !== undefined && groups.length === 0 ? ['system:serviceaccounts', `system:serviceaccounts:${namespace}`] : groups;
  return implied.includes('system:authenticated') || implied.includes('system:unauthenticated')
    ? implied
    : [...implied, 'system:authenticated'];
}
