import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import { namespaces, pods } from '@oarlock/api/resources';
import type { Namespace, Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import { allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Client, Informer } from '@oarlock/spi/client';
import { modes, NamespacePolicies, prefix, type Policies, type PolicyDefaults } from './namespace-policies.ts';
import { described, levels, named, parseLevel, parseVersion, violations, type LevelVersion } from './policy.ts';

/** The maximum number of existing pods to check when the policy of a namespace becomes stricter. */
const maxPods = 3000;

/** Returns the pod template of an object, keyed by the kind of the workload. */
export const templates: Readonly<Record<string, (object: KubeObject) => Pick<Pod, 'metadata' | 'spec'> | undefined>> = {
  podtemplates: (object) => (object as { readonly template?: PodTemplateSpec }).template,
  ...Object.fromEntries(
    ['replicationcontrollers', 'deployments.apps', 'replicasets.apps', 'daemonsets.apps', 'statefulsets.apps', 'jobs.batch'].map(
      (resource) => [
        resource,
        (object: KubeObject) => (object as { readonly spec?: { readonly template?: PodTemplateSpec } }).spec?.template,
      ],
    ),
  ),
  'cronjobs.batch': (object) =>
    (object as { readonly spec?: { readonly jobTemplate?: { readonly spec?: { readonly template?: PodTemplateSpec } } } }).spec?.jobTemplate
      ?.spec?.template,
};

/** Validates the policy labels of a namespace. Returns a denial with upstream's message, or undefined if the labels are valid. */
function labelFault(labels: Readonly<Record<string, string>>): AdmissionDecision {
  for (const mode of modes) {
    const text = labels[`${prefix}${mode}`];
    if (text !== undefined && parseLevel(text) === undefined)
      return deny(`Invalid value: ${JSON.stringify(text)}: must be one of ${levels.join(', ')}`, {
        reason: 'Invalid',
        field: `metadata.labels[${prefix}${mode}]`,
      });
    const release = labels[`${prefix}${mode}-version`];
    if (release !== undefined && parseVersion(release) === undefined)
      return deny(`Invalid value: ${JSON.stringify(release)}: must be "latest" or "v1.x"`, {
        reason: 'Invalid',
        field: `metadata.labels[${prefix}${mode}-version]`,
      });
  }
  return allow;
}

/** Returns true if two versions of a pod are equal in the fields that the checks read. Updates of other fields need no check. */
const sameSpec = (a: Pod, b: Pod): boolean =>
  jsonEqual(a.spec, b.spec) && jsonEqual(a.metadata?.annotations ?? {}, b.metadata?.annotations ?? {});
const isOpen = ({ enforce, audit, warn }: Policies) => [enforce, audit, warn].every((policy) => policy.level === 'privileged');

export interface Exemptions {
  readonly usernames: readonly string[];
  readonly runtimeClasses: readonly string[];
  readonly namespaces: readonly string[];
}

/** Evaluates pods, workloads and namespaces against the Pod Security Standards. */
export class PodSecurity {
  readonly #client: Client;
  readonly #namespaces: Informer<Namespace>;
  readonly #policies: NamespacePolicies;
  readonly #exempt: { readonly users: Set<string>; readonly classes: Set<string>; readonly namespaces: Set<string> };

  constructor(
    client: Client,
    known: Informer<Namespace>,
    { defaults, exemptions }: { readonly defaults: PolicyDefaults; readonly exemptions: Exemptions },
  ) {
    this.#client = client;
    this.#namespaces = known;
    this.#policies = new NamespacePolicies(defaults);
    this.#exempt = {
      users: new Set(exemptions.usernames),
      classes: new Set(exemptions.runtimeClasses),
      namespaces: new Set(exemptions.namespaces),
    };
  }

  validate(request: AdmissionRequest): AdmissionDecision | Promise<AdmissionDecision> {
    const { resource, namespace, identity } = request;
    if (resource.group === '' && resource.resource === 'namespaces') return this.#validateNamespace(request);
    if (this.#exempt.namespaces.has(namespace)) {
      request.annotate(`${prefix}exempt`, 'namespace');
      return allow;
    }
    if (this.#exempt.users.has(identity.name)) {
      request.annotate(`${prefix}exempt`, 'user');
      return allow;
    }
    const cached = this.#namespaces.get(namespace);
    if (cached !== undefined) return this.#evaluateRequest(request, cached);
    return this.#client.get(namespaces, { name: namespace }).then((found) => this.#evaluateRequest(request, found));
  }

  #evaluateRequest(request: AdmissionRequest, { metadata }: Namespace): AdmissionDecision {
    const { object, old, resource } = request;
    const policies = this.#policies.of(metadata?.labels);
    if (isOpen(policies) || object === undefined) return allow;
    const name = groupResource(resource);
    if (name === 'pods')
      return old !== undefined && sameSpec(object, old) ? allow : this.#evaluatePod(request, { policies, pod: object, enforced: true });
    const template = templates[name]?.(object);
    if (template === undefined || (old !== undefined && jsonEqual(template, templates[name]?.(old)))) return allow;
    return this.#evaluatePod(request, { policies, pod: template, enforced: false });
  }

  #evaluatePod(
    request: AdmissionRequest,
    {
      policies: { enforce, audit, warn },
      pod,
      enforced,
    }: { readonly policies: Policies; readonly pod: Pick<Pod, 'metadata' | 'spec'>; readonly enforced: boolean },
  ): AdmissionDecision {
    if (this.#exempt.classes.has(pod.spec?.runtimeClassName ?? '')) {
      request.annotate(`${prefix}exempt`, 'runtimeClass');
      return allow;
    }
    if (enforced) {
      request.annotate(`${prefix}enforce-policy`, named(enforce));
      const found = violations(enforce, pod);
      if (found.length > 0) return deny(`violates PodSecurity ${JSON.stringify(named(enforce))}: ${described(found)}`);
    }
    const audited = violations(audit, pod);
    if (audited.length > 0)
      request.annotate(`${prefix}audit-violations`, `would violate PodSecurity ${JSON.stringify(named(audit))}: ${described(audited)}`);
    const warned = violations(warn, pod);
    if (warned.length > 0) request.warn(`would violate PodSecurity ${JSON.stringify(named(warn))}: ${described(warned)}`);
    return allow;
  }

  /** Returns warnings about the existing pods of a namespace that violate its stricter policy. */
  async #warnOfPods(request: AdmissionRequest, policy: LevelVersion): Promise<void> {
    const { items, metadata } = await this.#client.list(pods, { namespace: request.name, limit: maxPods });
    const found = new Map<string, string[]>();
    for (const pod of items) {
      if (this.#exempt.classes.has(pod.spec?.runtimeClassName ?? '')) continue;
      const reasons = violations(policy, pod)
        .map(({ reason }) => reason)
        .join(', ');
      if (reasons !== '') found.set(reasons, [...(found.get(reasons) ?? []), pod.metadata?.name ?? '']);
    }
    if (found.size === 0) return;
    request.warn(
      `existing pods in namespace ${JSON.stringify(request.name)} violate the new PodSecurity enforce level ${JSON.stringify(named(policy))}`,
    );
    if (metadata?.continue) request.warn(`new PodSecurity enforce level only checked against the first ${maxPods} existing pods`);
    const lines = [...found].map(([reasons, all]) => {
      const [first = '', ...others] = all.sort();
      const more = others.length === 0 ? '' : ` (and ${others.length} other pod${others.length === 1 ? '' : 's'})`;
      return `${first}${more}: ${reasons}`;
    });
    for (const line of lines.sort()) request.warn(line);
  }

  /** Validates the policy labels of a namespace, and warns about existing pods if its enforced policy becomes stricter. */
  async #validateNamespace(request: AdmissionRequest): Promise<AdmissionDecision> {
    const labels = request.object?.metadata?.labels ?? {};
    const before = request.old?.metadata?.labels ?? {};
    const verdict = labelFault(labels);
    if (!verdict.allowed) {
      // labels that were invalid before can stay
      return request.old !== undefined && !labelFault(before).allowed ? allow : verdict;
    }
    if (request.operation !== 'UPDATE' || request.dryRun || this.#exempt.namespaces.has(request.name)) return allow;
    const [next, old] = [this.#policies.of(labels).enforce, this.#policies.of(before).enforce];
    const tighter = levels.indexOf(next.level) > levels.indexOf(old.level) || (next.level === old.level && next.minor !== old.minor);
    if (tighter) await this.#warnOfPods(request, next);
    return allow;
  }
}
