import type { FlowSchema } from '@oarlock/api/types/flowcontrol-v1';
import type { Identity } from '@oarlock/spi/authn';
import type { RequestInfo } from '../http/request-info.ts';

type SchemaSpec = NonNullable<FlowSchema['spec']>;
type Rule = NonNullable<SchemaSpec['rules']>[number];

/** A compiled FlowSchema. */
export interface FlowSchemaMatcher {
  readonly name: string;
  readonly uid: string;
  readonly level: string;
  readonly by: 'user' | 'namespace' | undefined;
  /** Returns true if the subjects of a rule include the user: `matches` is false for all requests of other users. */
  includes(identity: Identity): boolean;
  matches(info: RequestInfo, identity: Identity): boolean;
}

type Names = (name: string) => boolean;
/** Returns a predicate that is true for the names in the list, or for every name if the list contains `*`. */
function nameMatcher(list: readonly string[] | undefined): Names {
  if (list === undefined || list.length === 0) return () => false;
  if (list.includes('*')) return () => true;
  const [only] = list;
  if (list.length === 1) return (name) => name === only;
  const set = new Set(list);
  return (name) => set.has(name);
}

function urlMatcher(list: readonly string[]): Names {
  const prefixes = list.filter((url) => url.endsWith('*')).map((url) => url.slice(0, -1));
  const exact = new Set(list.filter((url) => !url.endsWith('*')));
  return (path) => exact.has(path) || prefixes.some((prefix) => path.startsWith(prefix));
}

const accountPrefix = 'system:serviceaccount:';
function subjectMatcher(list: Rule['subjects']): (identity: Identity) => boolean {
  const users = nameMatcher(list.flatMap(({ kind, user }) => (kind === 'User' && user !== undefined ? [user.name] : [])));
  const groups = nameMatcher(list.flatMap(({ kind, group }) => (kind === 'Group' && group !== undefined ? [group.name] : [])));
  const accounts = list.flatMap(({ kind, serviceAccount: account }) =>
    kind === 'ServiceAccount' && account !== undefined
      ? [{ prefix: `${accountPrefix}${account.namespace}:`, name: account.name === '*' ? undefined : account.name }]
      : [],
  );
  return ({ name, groups: own }) =>
    users(name) ||
    own.some(groups) ||
    (accounts.length > 0 &&
      name.startsWith(accountPrefix) &&
      accounts.some(
        (account) => name.startsWith(account.prefix) && (account.name === undefined || name === account.prefix + account.name),
      ));
}

function compileRule({ subjects, resourceRules = [], nonResourceRules = [] }: Rule): Pick<FlowSchemaMatcher, 'includes' | 'matches'> {
  const bySubject = subjectMatcher(subjects);
  const resources = resourceRules.map((rule) => ({
    verbs: nameMatcher(rule.verbs),
    groups: nameMatcher(rule.apiGroups),
    resources: nameMatcher(rule.resources),
    namespaces: nameMatcher(rule.namespaces),
    clusterScope: rule.clusterScope === true,
  }));
  const paths = nonResourceRules.map((rule) => ({ verbs: nameMatcher(rule.verbs), urls: urlMatcher(rule.nonResourceURLs) }));
  const matches = (info: RequestInfo, identity: Identity) => {
    if (info.kind === 'path') return paths.some((rule) => rule.verbs(info.verb) && rule.urls(info.path)) && bySubject(identity);
    const { verb, group, resource, subresource, namespace } = info;
    const what = subresource === '' ? resource : `${resource}/${subresource}`;
    return (
      resources.some(
        (rule) =>
          rule.verbs(verb) &&
          rule.groups(group) &&
          rule.resources(what) &&
          (namespace === '' ? rule.clusterScope : rule.namespaces(namespace)),
      ) && bySubject(identity)
    );
  };
  return { includes: bySubject, matches };
}

/** Compiles FlowSchemas and sorts them in matching order: by matchingPrecedence, then by name. */
export function flowSchemaMatchers(schemas: Iterable<FlowSchema>): readonly FlowSchemaMatcher[] {
  const precedence = ({ spec }: FlowSchema) => spec?.matchingPrecedence ?? 1000;
  const nameOf = ({ metadata }: FlowSchema) => metadata?.name ?? '';
  return [...schemas]
    .sort((a, b) => precedence(a) - precedence(b) || (nameOf(a) < nameOf(b) ? -1 : 1))
    .map((schema) => {
      const rules = (schema.spec?.rules ?? []).map(compileRule);
      const by = schema.spec?.distinguisherMethod?.type;
      return {
        name: nameOf(schema),
        uid: schema.metadata?.uid ?? '',
        level: schema.spec?.priorityLevelConfiguration?.name ?? '',
        by: by === 'ByUser' ? 'user' : by === 'ByNamespace' ? 'namespace' : undefined,
        includes: (identity) => rules.some((rule) => rule.includes(identity)),
        matches: (info, identity) => rules.some((rule) => rule.matches(info, identity)),
      };
    });
}
