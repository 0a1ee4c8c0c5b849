import { readFile } from 'node:fs/promises';
import type { AuditLevel, AuditStage } from '@oarlock/spi/audit';
import type { Attributes } from '@oarlock/spi/authz';
import { parse } from 'yaml';
import { z } from 'zod';

const words = z.array(z.string()).default([]);
const stages = z.array(z.enum(['RequestReceived', 'ResponseStarted', 'ResponseComplete', 'Panic'])).default([]);
const path = z
  .string()
  .refine(
    (text) => text === '*' || (text.startsWith('/') && !text.slice(0, -1).includes('*')),
    'a path that begins with "/" and has "*" at its end only, or "*"',
  );
const groupResources = z
  .strictObject({
    group: z
      .string()
      .regex(/^(?:[a-z0-9.-]*|\*)$/, 'a group without its version, or "*" for all groups')
      .default(''),
    resources: words,
    resourceNames: words,
  })
  .refine(({ resources, resourceNames }) => resourceNames.length === 0 || resources.length > 0, 'resourceNames need resources');
const rule = z
  .strictObject({
    level: z.enum(['None', 'Metadata', 'Request', 'RequestResponse']),
    users: words,
    userGroups: words,
    verbs: words,
    resources: z.array(groupResources).default([]),
    namespaces: words,
    nonResourceURLs: z.array(path).default([]),
    omitStages: stages,
    omitManagedFields: z.boolean().optional(),
  })
  .refine(
    ({ nonResourceURLs, resources, namespaces }) => nonResourceURLs.length === 0 || resources.length + namespaces.length === 0,
    'rules cannot apply to both regular resources and non-resource URLs',
  );
const policy = z.strictObject({
  apiVersion: z.literal('audit.k8s.io/v1'),
  kind: z.literal('Policy'),
  metadata: z.record(z.string(), z.unknown()).optional(),
  rules: z.array(rule).min(1, 'a policy needs at least one rule'),
  omitStages: stages,
  omitManagedFields: z.boolean().default(false),
});
type Rule = z.output<typeof rule>;
type GroupResources = z.output<typeof groupResources>;

/** The stages of a request that are recorded, and the content of the events (RequestAuditConfig upstream). */
export interface AuditScope {
  readonly level: AuditLevel;
  readonly omitStages: ReadonlySet<AuditStage>;
  readonly omitManagedFields: boolean;
}
/** Returns the stages and the content to record for a request; undefined if the request is not audited. */
export type AuditPolicy = (attributes: Attributes) => AuditScope | undefined;

const metadata: AuditScope = { level: 'Metadata', omitStages: new Set(), omitManagedFields: false };
/** The audit policy that records every request at level Metadata. */
export const metadataLevelPolicy: AuditPolicy = () => metadata;

/** Loads a Policy of `audit.k8s.io/v1` from a file. @throws Error that lists the invalid fields if the policy is invalid */
export async function loadAuditPolicy(file: string): Promise<AuditPolicy> {
  const parsed = policy.safeParse(parse(await readFile(file, 'utf8')));
  if (parsed.success) return compile(parsed.data);
  const issues = parsed.error.issues.map(({ path: at, message }) => `${at.join('.') || '.'}: ${message}`);
  throw new Error(`${file} is not a valid audit policy: ${issues.join('; ')}`);
}

/** Compiles a Policy object. @throws ZodError if the policy is invalid */
export const compileAuditPolicy = (document: z.input<typeof policy>): AuditPolicy => compile(policy.parse(document));

/** Compiles a validated policy. The first rule that matches a request applies; a request that matches no rule is not audited. */
function compile({ rules, omitStages, omitManagedFields }: z.output<typeof policy>): AuditPolicy {
  const compiled = rules.map((each) => ({
    matches: matcher(each),
    scope:
      each.level === 'None'
        ? undefined
        : {
            level: each.level,
            omitStages: new Set([...omitStages, ...each.omitStages]),
            omitManagedFields: each.omitManagedFields ?? omitManagedFields,
          },
  }));
  return (attributes) => compiled.find(({ matches }) => matches(attributes))?.scope;
}

const anyOf = (list: readonly string[]): ((value: string) => boolean) => {
  const set = new Set(list);
  return set.size === 0 ? () => true : (value) => set.has(value);
};

function matcher({ users, userGroups, verbs, resources, namespaces, nonResourceURLs }: Rule): (attributes: Attributes) => boolean {
  const [user, verb, namespace, group] = [anyOf(users), anyOf(verbs), anyOf(namespaces), anyOf(userGroups)];
  const ofResources = resources.length > 0 || namespaces.length > 0;
  return (attributes) => {
    const { identity } = attributes;
    if (!user(identity.name) || !verb(attributes.verb)) return false;
    if (userGroups.length > 0 && !identity.groups.some(group)) return false;
    if (ofResources)
      return (
        attributes.kind === 'resource' &&
        namespace(attributes.namespace) &&
        (resources.length === 0 || resources.some((each) => matchesResource(each, attributes)))
      );
    return nonResourceURLs.length === 0 || (attributes.kind === 'path' && nonResourceURLs.some((url) => matchesPath(url, attributes.path)));
  };
}

const matchesPath = (url: string, path: string): boolean => url === path || (url.endsWith('*') && path.startsWith(url.slice(0, -1)));

// rules name `pods`, `pods/log`, `pods/*` (all subresources of a resource), `*/status` (a subresource of all resources) or `*`
function matchesResource(
  { group, resources, resourceNames }: GroupResources,
  { group: requestedGroup, resource, subresource, name }: Extract<Attributes, { kind: 'resource' }>,
): boolean {
  if (group !== '*' && group !== requestedGroup) return false;
  if (resources.length === 0) return true;
  if (resourceNames.length > 0 && !resourceNames.includes(name)) return false;
  const whole = subresource === '' ? resource : `${resource}/${subresource}`;
  return resources.some(
    (each) => each === '*' || each === whole || (subresource !== '' && each === `*/${subresource}`) || each === `${resource}/*`,
  );
}
