import type { IncomingHttpHeaders } from 'node:http';
import type { StatusError } from '@oarlock/api/status';
import { anonymous, type Identity } from '@oarlock/spi/authn';
import type { Attributes, Authorizer, ResourceAttributes } from '@oarlock/spi/authz';
import { authorizationError } from '../authorization/require-authorization.ts';
import { internalError } from '../http/errors.ts';

const extraPrefix = 'impersonate-extra-';
const maxValues = 256;
const nodePrefix = 'system:node:';
const serviceAccount = /^system:serviceaccount:([^:]+):([^:]+)$/;

type ImpersonateTarget = Pick<ResourceAttributes, 'group' | 'version' | 'resource' | 'subresource' | 'namespace' | 'name'>;
const impersonateAttributes = (resource: string, name: string, more: Partial<ImpersonateTarget> = {}): ImpersonateTarget => ({
  group: '',
  version: 'v1',
  resource,
  subresource: '',
  namespace: '',
  name,
  ...more,
});
const authentication = { group: 'authentication.k8s.io', version: 'v1' };

/** Whom a request is taken as coming from. */
export interface ImpersonationResult {
  readonly identity: Identity;
  /** The verb of constrained impersonation (KEP-5284) that allowed it. */
  readonly constraint?: string;
}

/**
 * Whom the request is to be taken as coming from: the sender, or whoever its `Impersonate-*` headers name if the sender may
 * impersonate each part of that, for this very request or for any. Of headers that come more than once, the values are asked for one by one.
 */
export async function impersonate(
  headers: IncomingHttpHeaders,
  sender: Identity,
  chain: readonly Authorizer[],
  request: Attributes,
): Promise<ImpersonationResult | StatusError> {
  const wanted = impersonationHeadersOf(headers);
  if (wanted === undefined) return { identity: sender };
  const { user, uid, groups, extra } = wanted;
  const count = groups.length + Object.values(extra).reduce((sum, values) => sum + values.length, 0);
  if (count > maxValues) return internalError(`more than ${maxValues} groups and extra values to impersonate`);
  if (user === undefined) return internalError(`requested ${describe(wanted)} without impersonating a user`);
  const account = serviceAccount.exec(user);
  const node = user.startsWith(nodePrefix) ? user.slice(nodePrefix.length) : '';
  const identity = (implied: readonly string[]): Identity => ({
    name: user,
    groups: withAuthenticated(user, groups.length === 0 ? implied : groups),
    ...(uid !== undefined && { uid }),
    ...(Object.keys(extra).length > 0 && { extra }),
  });
  const accountGroups = account === null ? [] : ['system:serviceaccounts', `system:serviceaccounts:${account[1] ?? ''}`];
  const refused = async (verb: string, gv: Partial<ImpersonateTarget>, who: ImpersonateTarget): Promise<StatusError | undefined> => {
    for (const part of [who, ...impersonateChecks(wanted, gv)]) {
      const refusal = await authorizationError(chain, { kind: 'resource', identity: sender, verb, ...part });
      if (refusal !== undefined) return refusal;
    }
    return undefined;
  };
  const whoIn = (gv: Partial<ImpersonateTarget>): ImpersonateTarget =>
    account === null
      ? impersonateAttributes('users', user, gv)
      : impersonateAttributes('serviceaccounts', account[2] ?? '', { ...gv, namespace: account[1] ?? '' });
  const plain = uid === undefined && count === 0;
  for (const mode of constraintModesFor(sender, { plain, account: account !== null, node })) {
    const verb = `impersonate:${mode}`;
    const who = node === '' ? whoIn(authentication) : impersonateAttributes('nodes', node, authentication);
    const may = { ...request, identity: sender, verb: `impersonate-on:${mode}:${request.verb}` };
    if ((await authorizationError(chain, may)) !== undefined || (await refused(verb, authentication, who)) !== undefined) continue;
    return { identity: identity(node === '' ? accountGroups : ['system:nodes']), constraint: verb };
  }
  return (await refused('impersonate', {}, whoIn({}))) ?? { identity: identity(accountGroups) };
}

/** The groups, the extra values and the uid that are wanted besides the user. */
const impersonateChecks = ({ uid, groups, extra }: ImpersonatedUserInfo, gv: Partial<ImpersonateTarget>): readonly ImpersonateTarget[] => [
  ...groups.map((group) => impersonateAttributes('groups', group, gv)),
  ...Object.entries(extra).flatMap(([key, values]) =>
    values.map((value) => impersonateAttributes('userextras', value, { ...authentication, subresource: key })),
  ),
  ...(uid === undefined ? [] : [impersonateAttributes('uids', uid, authentication)]),
];

/** How somebody may be impersonated for single actions. Nodes and service accounts only as they are, with nothing added. */
function constraintModesFor(
  sender: Identity,
  { plain, account, node }: { readonly plain: boolean; readonly account: boolean; readonly node: string },
): readonly string[] {
  if (account) return plain ? ['serviceaccount'] : [];
  if (node === '') return ['user-info'];
  if (!plain) return [];
  return runsOn(sender, node) ? ['associated-node', 'arbitrary-node'] : ['arbitrary-node'];
}

/** A pod's service account, on the node in question. */
function runsOn({ name, extra = {} }: Identity, node: string): boolean {
  const only = (key: string) => (extra[key]?.length === 1 ? extra[key][0] : undefined);
  return (
    serviceAccount.test(name) &&
    (only('authentication.kubernetes.io/pod-name') ?? '') !== '' &&
    only('authentication.kubernetes.io/node-name') === node
  );
}

interface ImpersonatedUserInfo {
  readonly user: string | undefined;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

function impersonationHeadersOf(headers: IncomingHttpHeaders): ImpersonatedUserInfo | undefined {
  // a map, because the client chooses the keys: `extra['__proto__'] = values` would set the prototype and skip the authorization check
  const extra = new Map<string, string[]>();
  let any = false;
  for (const name in headers) {
    if (!name.startsWith('impersonate-')) continue;
    any = true;
    if (name.startsWith(extraPrefix)) extra.set(unescapeKey(name.slice(extraPrefix.length)), valuesOf(headers[name]));
  }
  if (!any) return undefined;
  const single = (name: string) => headers[name]?.toString() || undefined;
  return {
    user: single('impersonate-user'),
    uid: single('impersonate-uid'),
    groups: valuesOf(headers['impersonate-group']),
    extra: Object.fromEntries(extra),
  };
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

function describe({ uid, groups, extra }: ImpersonatedUserInfo): string {
  return (
    [
      ...groups.map((name) => `groups/${name}`),
      ...Object.keys(extra).map((key) => `userextras/${key}`),
      ...(uid === undefined ? [] : [`uids/${uid}`]),
    ].join(', ') || 'impersonation'
  );
}

function withAuthenticated(user: string, groups: readonly string[]): readonly string[] {
  if (user === anonymous.name) return groups.includes('system:unauthenticated') ? groups : [...groups, 'system:unauthenticated'];
  return groups.includes('system:authenticated') || groups.includes('system:unauthenticated')
    ? groups
    : [...groups, 'system:authenticated'];
}
