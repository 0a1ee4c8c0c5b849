import { parseAccessTarget } from '@oarlock/api/rbac/access-target';
import type { RuleRequest } from '@oarlock/api/rbac/policy-rules';
import { link } from '../../../app/router.ts';

/** A request whose authorization is explained. The fields are parameters of the view's address. */
export interface AccessRequest {
  readonly verb: string;
  /** `deployments.apps/scale` or a path such as `/metrics`. */
  readonly target: string;
  /** '' for a request of all namespaces, or of a resource without a namespace. */
  readonly namespace: string;
  readonly name: string;
  /** '' for the user of the session. */
  readonly user: string;
  /** The groups of the user, separated by commas. */
  readonly groups: string;
}

export const accessRequestOf = (query: Readonly<Record<string, string>>): AccessRequest => ({
  verb: query['verb'] ?? 'get',
  target: query['target'] ?? '',
  namespace: query['ns'] ?? '',
  name: query['name'] ?? '',
  user: query['user'] ?? '',
  groups: query['groups'] ?? '',
});

export const accessLink = ({
  verb,
  target,
  namespace,
  name,
  user = '',
  groups = '',
}: Omit<AccessRequest, 'user' | 'groups'> & Partial<AccessRequest>) =>
  link(['why', 'access'], { verb, target, ns: namespace, name, user, groups });

/** Returns the form of a request that rules are compared with. */
export function ruleRequestOf({ verb, target, name }: AccessRequest): RuleRequest {
  const parsed = parseAccessTarget(target);
  if ('path' in parsed) return { verb, path: parsed.path };
  const { group, resource, subresource } = parsed;
  return { verb, group, resource: subresource === '' ? resource : `${resource}/${subresource}`, name };
}

const deniedResource =
  /(?:"(?<name>[^"]*)" is forbidden: )?User "[^"]*" cannot (?<verb>[\w-]+) resource "(?<resource>[^"]+)" in API group "(?<group>[^"]*)"(?: in the namespace "(?<namespace>[^"]*)")?/;
const deniedPath = /User "[^"]*" cannot (?<verb>[\w-]+) path "(?<path>[^"]+)"/;

/** Returns the request that the message of an API server denies; undefined for other messages. */
export function deniedRequest(message: string): Omit<AccessRequest, 'user' | 'groups'> | undefined {
  const found = deniedResource.exec(message)?.groups;
  if (found !== undefined) {
    const { name = '', verb = '', resource = '', group = '', namespace = '' } = found;
    const [plural = '', subresource = ''] = resource.split('/');
    return { verb, target: `${plural}${group === '' ? '' : `.${group}`}${subresource === '' ? '' : `/${subresource}`}`, namespace, name };
  }
  const path = deniedPath.exec(message)?.groups;
  return path && { verb: path['verb'] ?? '', target: path['path'] ?? '', namespace: '', name: '' };
}
