import type { StatusError } from '@oarlock/api/status';
import { isDns1123Subdomain } from '@oarlock/api/values/names';
import { anonymous, headerValues, type Identity } from '@oarlock/spi/authn';
import type { Attributes, Authorizer, ResourceAttributes } from '@oarlock/spi/authz';
import { ownCredentials } from '@oarlock/spi/paths';
import { authorizationError } from '../authorization/require-authorization.ts';
import { internalError } from '../http/errors.ts';

const impersonationHeader = /^impersonate-/i;
const extraPrefix = 'impersonate-extra-';
const nodePrefix = 'system:node:';
const nodeNameKey = 'authentication.kubernetes.io/node-name';
/** A DNS subdomain, a slash and a path, such as `example.com/scopes`. */
const domainPrefixedPath = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\/[\w./~%!$&'()*+,;=:-]+$/;
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

/** The user that authorizers see for the request. */
export interface ImpersonationResult {
  readonly identity: Identity;
  /** The verb of constrained impersonation (KEP-5284) that allowed the impersonation; absent if another verb did. */
  readonly constraint?: string;
}

/**
 * Returns the user of the request: the authenticated user, or the impersonated user of the `Impersonate-*` headers. The authenticated user
 * needs permission for each part of the impersonated user, either for this request only (constrained impersonation, KEP-5284) or for all
 * requests. Each line of a repeated header is one value, which is authorized separately and may contain commas. The limit of header lines bounds
 * the number of values. Returns a promise only for a request with such headers.
 */
export function impersonate(
  rawHeaders: readonly string[],
  sender: Identity,
  chain: readonly Authorizer[],
  request: Attributes,
): ImpersonationResult | StatusError | Promise<ImpersonationResult | StatusError> {
  const requested = impersonationHeadersOf(rawHeaders);
  if (requested === undefined) return { identity: sender };
  const { user } = requested;
  if (user === undefined) return internalError(`requested ${describe(requested)} without impersonating a user`);
  return new Impersonation({ ...requested, user }, sender, chain).authorize(request);
}

/** The authorization of one request to impersonate a user. */
class Impersonation {
  readonly #requested: ImpersonatedUserInfo & { readonly user: string };
  readonly #sender: Identity;
  readonly #chain: readonly Authorizer[];
  /** The match of the namespace and name of an impersonated service account; null for other users. */
  readonly #account: RegExpExecArray | null;
  /** The name of an impersonated node; '' for other users. */
  readonly #node: string;

  constructor(requested: ImpersonatedUserInfo & { readonly user: string }, sender: Identity, chain: readonly Authorizer[]) {
    const { user } = requested;
    this.#requested = requested;
    this.#sender = sender;
    this.#chain = chain;
    this.#account = serviceAccount.exec(user);
    const node = user.startsWith(nodePrefix) ? user.slice(nodePrefix.length) : '';
    this.#node = isDns1123Subdomain(node).length === 0 ? node : '';
  }

  async authorize(request: Attributes): Promise<ImpersonationResult | StatusError> {
    for (const mode of this.#constraintModes()) {
      const constraint = `impersonate:${mode}`;
      const isAssociated = mode === 'associated-node';
      const sender = isAssociated ? withoutExtraValues(this.#sender) : this.#sender;
      const action = { ...request, identity: sender, verb: `impersonate-on:${mode}:${request.verb}` };
      if ((await authorizationError(this.#chain, action)) !== undefined) continue;
      // the permission for the associated node is one for the nodes of all pods of the service account
      const nodeTarget = impersonateAttributes('nodes', isAssociated ? '*' : this.#node, authentication);
      const target = this.#node === '' ? this.#userTarget(authentication) : nodeTarget;
      if ((await this.#authorizationError({ verb: constraint, sender, groupVersion: authentication }, target)) !== undefined) continue;
      return { identity: this.#identity(this.#node === '' ? this.#accountGroups() : ['system:nodes']), constraint };
    }
    const legacy = { verb: 'impersonate', sender: this.#sender, groupVersion: {} };
    return (await this.#authorizationError(legacy, this.#userTarget({}))) ?? { identity: this.#identity(this.#accountGroups()) };
  }

  #identity(impliedGroups: readonly string[]): Identity {
    const { user, uid, groups, extra } = this.#requested;
    return {
      name: user,
      groups: withAuthenticated(user, groups.length === 0 ? impliedGroups : groups),
      ...(uid !== undefined && { uid }),
      ...(Object.keys(extra).length > 0 && { extra }),
    };
  }

  #accountGroups(): readonly string[] {
    return this.#account === null ? [] : ['system:serviceaccounts', `system:serviceaccounts:${this.#account[1] ?? ''}`];
  }

  #userTarget(groupVersion: Partial<ImpersonateTarget>): ImpersonateTarget {
    if (this.#account === null) return impersonateAttributes('users', this.#requested.user, groupVersion);
    const [, namespace = '', name = ''] = this.#account;
    return impersonateAttributes('serviceaccounts', name, { ...groupVersion, namespace });
  }

  /**
   * Returns the error of the first permission that the authenticated user lacks: for the impersonated user or for its groups, UID and extra
   * values. Undefined if all are allowed.
   */
  async #authorizationError(
    { verb, sender, groupVersion }: { readonly verb: string; readonly sender: Identity; readonly groupVersion: Partial<ImpersonateTarget> },
    user: ImpersonateTarget,
  ): Promise<StatusError | undefined> {
    for (const target of [user, ...impersonateChecks(this.#requested, groupVersion)]) {
      const error = await authorizationError(this.#chain, { kind: 'resource', identity: sender, verb, ...target });
      if (error !== undefined) return error;
    }
    return undefined;
  }

  /**
   * Returns the modes of constrained impersonation that can allow the impersonated user. Nodes and service accounts can be impersonated
   * only without groups, UID and extra values; no mode allows the group system:masters.
   */
  #constraintModes(): readonly string[] {
    const { uid, groups, extra } = this.#requested;
    const isPlain = uid === undefined && groups.length === 0 && Object.keys(extra).length === 0;
    if (this.#account !== null) return isPlain ? ['serviceaccount'] : [];
    if (this.#node === '') return isConstrainable(this.#requested) ? ['user-info'] : [];
    if (!isPlain) return [];
    return runsOn(this.#sender, this.#node) ? ['associated-node', 'arbitrary-node'] : ['arbitrary-node'];
  }
}

/** Returns the permissions to check for the groups, the extra values and the UID of the impersonated user. */
const impersonateChecks = (
  { uid, groups, extra }: ImpersonatedUserInfo,
  groupVersion: Partial<ImpersonateTarget>,
): readonly ImpersonateTarget[] => [
  ...groups.map((group) => impersonateAttributes('groups', group, groupVersion)),
  ...Object.entries(extra).flatMap(([key, values]) =>
    values.map((value) => impersonateAttributes('userextras', value, { ...authentication, subresource: key })),
  ),
  ...(uid === undefined ? [] : [impersonateAttributes('uids', uid, authentication)]),
];

/** Returns true if the authenticated user is a service account whose token is bound to the node. */
function runsOn({ name, extra = {} }: Identity, node: string): boolean {
  const nodes = extra[nodeNameKey];
  return serviceAccount.test(name) && nodes?.length === 1 && nodes[0] === node;
}

/** Returns the service account as authorizers see it for its associated node: a decision holds for its pods on all nodes. */
function withoutExtraValues({ extra = {}, ...identity }: Identity): Identity {
  return { ...identity, extra: { 'authentication.kubernetes.io/associated-node-keys': Object.keys(extra).sort() } };
}

/** Returns true if constrained impersonation can allow the groups and extra values at all. */
function isConstrainable({ groups, extra }: ImpersonatedUserInfo): boolean {
  return (
    !groups.includes('') &&
    !groups.includes('system:masters') &&
    Object.entries(extra).every(
      ([key, values]) => key === key.toLowerCase() && domainPrefixedPath.test(key) && values.length > 0 && !values.includes(''),
    )
  );
}

interface ImpersonatedUserInfo {
  readonly user: string | undefined;
  readonly uid: string | undefined;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

function impersonationHeadersOf(rawHeaders: readonly string[]): ImpersonatedUserInfo | undefined {
  // a map, because the client chooses the keys: `extra['__proto__'] = values` would set the prototype and skip the authorization check
  const extra = new Map<string, string[]>();
  let found = false;
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    if (!impersonationHeader.test(rawHeaders[i] ?? '')) continue;
    found = true;
    const name = (rawHeaders[i] ?? '').toLowerCase();
    if (!name.startsWith(extraPrefix)) continue;
    const key = unescapeKey(name.slice(extraPrefix.length));
    extra.set(key, [...(extra.get(key) ?? []), rawHeaders[i + 1] ?? '']);
  }
  if (!found) return undefined;
  // several names are one name that no user has: a request never impersonates one of several users
  const single = (name: string) => headerValues(rawHeaders, name).join(', ') || undefined;
  return {
    user: single('impersonate-user'),
    uid: single('impersonate-uid'),
    groups: groupsOf(rawHeaders),
    extra: Object.fromEntries(extra),
  };
}

/**
 * Returns the impersonated groups, one for each line of the header. Browsers send the lines of a header as one, joined by a comma and a space: the console's
 * page, which its own header identifies, names several groups in this way. Each group is authorized, however it was sent.
 */
function groupsOf(rawHeaders: readonly string[]): readonly string[] {
  const lines = headerValues(rawHeaders, 'impersonate-group');
  return headerValues(rawHeaders, ownCredentials.header).length === 0 ? lines : lines.flatMap((line) => line.split(', '));
}

/** Decodes a percent-encoded key; returns the key unchanged if it is not valid percent-encoding. */
function unescapeKey(key: string): string {
  try {
    return decodeURIComponent(key);
  } catch {
    return key;
  }
}

/** Formats the requested parts of the user for an error message. */
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
