import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import { namespaces, pods } from '@oarlock/api/resources';
import type { Namespace, Pod, PodTemplateSpec } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { described, latest, levels, named, parseLevel, parseVersion, violations, type LevelVersion } from './policy.ts';

const prefix = 'pod-security.kubernetes.io/';
const modes = ['enforce', 'audit', 'warn'] as const;
type Mode = (typeof modes)[number];
type Policies = Readonly<Record<Mode, LevelVersion>>;

const level = z.enum(levels).default('privileged');
const version = z
  .string()
  .refine((text) => parseVersion(text) !== undefined, 'latest or v1.x')
  .default('latest');
const names = z.array(z.string().min(1)).default([]);
/** Maximum number of existing pods checked when the policy of a namespace becomes stricter. */
const maxPods = 3000;

/** The pod template of each workload kind. */
const templates: Readonly<Record<string, (object: KubeObject) => Pick<Pod, 'metadata' | 'spec'> | undefined>> = {
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

const noLabels: Readonly<Record<string, string>> = Object.freeze({});

/** Validates the policy labels of a namespace; errors are upstream's. */
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

/** Compares the fields that checks use, to skip updates of other fields by kubelets and the scheduler. */
const sameSpec = (a: Pod, b: Pod): boolean =>
  jsonEqual(a.spec, b.spec) && jsonEqual(a.metadata?.annotations ?? {}, b.metadata?.annotations ?? {});

/** Enforces the Pod Security Standards selected by the labels of the namespace (PodSecurity). */
export default Admission.plugin({
  id: 'admission-pod-security',
  config: z.strictObject({
    defaults: z
      .strictObject({
        enforce: level,
        'enforce-version': version,
        audit: level,
        'audit-version': version,
        warn: level,
        'warn-version': version,
      })
      .prefault({}),
    exemptions: z.strictObject({ usernames: names, runtimeClasses: names, namespaces: names }).prefault({}),
  }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }) {
    const known = informers.forResource(namespaces);
    const exempt = {
      users: new Set(config.exemptions.usernames),
      classes: new Set(config.exemptions.runtimeClasses),
      namespaces: new Set(config.exemptions.namespaces),
    };
    const policyOf = (labels: Readonly<Record<string, string>>, mode: Mode): LevelVersion => {
      const text = labels[`${prefix}${mode}`];
      const release = labels[`${prefix}${mode}-version`];
      const parsed = text === undefined ? config.defaults[mode] : parseLevel(text);
      // an invalid level or version selects the strictest policy
      const { minor } = parseVersion(release ?? (text === undefined ? config.defaults[`${mode}-version`] : 'latest')) ?? {
        minor: undefined,
      };
      return { level: parsed ?? 'restricted', minor: minor !== undefined && minor > latest ? undefined : minor };
    };
    /** Policies by the labels object of the namespace, which stays the same object until the namespace changes. */
    const read = new WeakMap<Readonly<Record<string, string>>, Policies>();
    const policies = (labels: Readonly<Record<string, string>> = noLabels): Policies => {
      let known = read.get(labels);
      if (known === undefined) {
        known = { enforce: policyOf(labels, 'enforce'), audit: policyOf(labels, 'audit'), warn: policyOf(labels, 'warn') };
        if (Object.isFrozen(labels)) read.set(labels, known);
      }
      return known;
    };
    const isOpen = ({ enforce, audit, warn }: Policies) => [enforce, audit, warn].every((policy) => policy.level === 'privileged');

    const evaluatePod = (
      request: AdmissionRequest,
      { enforce, audit, warn }: Policies,
      pod: Pick<Pod, 'metadata' | 'spec'>,
      enforced: boolean,
    ): AdmissionDecision => {
      if (exempt.classes.has(pod.spec?.runtimeClassName ?? '')) {
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
    };

    /** Returns warnings about existing pods that violate a stricter policy. */
    const warnOfPods = async (request: AdmissionRequest, policy: LevelVersion): Promise<void> => {
      const { items, metadata } = await client.list(pods, { namespace: request.name, limit: maxPods });
      const found = new Map<string, string[]>();
      for (const pod of items) {
        if (exempt.classes.has(pod.spec?.runtimeClassName ?? '')) continue;
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
    };

    const space = async (request: AdmissionRequest): Promise<AdmissionDecision> => {
      const labels = request.object?.metadata?.labels ?? {};
      const before = request.old?.metadata?.labels ?? {};
      const verdict = labelFault(labels);
      if (!verdict.allowed) {
        // labels that were invalid before can stay
        return request.old !== undefined && !labelFault(before).allowed ? allow : verdict;
      }
      if (request.operation !== 'UPDATE' || request.dryRun || exempt.namespaces.has(request.name)) return allow;
      const [next, old] = [policies(labels).enforce, policies(before).enforce];
      const tighter = levels.indexOf(next.level) > levels.indexOf(old.level) || (next.level === old.level && next.minor !== old.minor);
      if (tighter) await warnOfPods(request, next);
      return allow;
    };

    const evaluateRequest = (request: AdmissionRequest, { metadata }: Namespace): AdmissionDecision => {
      const { object, old, resource } = request;
      const asked = policies(metadata?.labels);
      if (isOpen(asked) || object === undefined) return allow;
      const name = groupResource(resource);
      if (name === 'pods') return old !== undefined && sameSpec(object, old) ? allow : evaluatePod(request, asked, object, true);
      const template = templates[name]?.(object);
      if (template === undefined || (old !== undefined && jsonEqual(template, templates[name]?.(old)))) return allow;
      return evaluatePod(request, asked, template, false);
    };

    return {
      matches: [
        { resources: ['pods', 'pods/ephemeralcontainers', 'namespaces', ...Object.keys(templates)], operations: ['CREATE', 'UPDATE'] },
      ],
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        const { resource, namespace, identity } = request;
        if (resource.group === '' && resource.resource === 'namespaces') return space(request);
        if (exempt.namespaces.has(namespace)) {
          request.annotate(`${prefix}exempt`, 'namespace');
          return allow;
        }
        if (exempt.users.has(identity.name)) {
          request.annotate(`${prefix}exempt`, 'user');
          return allow;
        }
        const cached = known.get(namespace);
        if (cached !== undefined) return evaluateRequest(request, cached);
        return client.get(namespaces, { name: namespace }).then((found) => evaluateRequest(request, found));
      },
    };
  },
});
