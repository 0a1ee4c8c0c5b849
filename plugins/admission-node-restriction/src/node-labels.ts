/**
 * Labels with Kubernetes prefixes that a node may set on itself.
 * https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
 */
const kubelets: ReadonlySet<string> = new Set([
  'kubernetes.io/hostname',
  'kubernetes.io/os',
  'kubernetes.io/arch',
  'beta.kubernetes.io/os',
  'beta.kubernetes.io/arch',
  'beta.kubernetes.io/instance-type',
  'node.kubernetes.io/instance-type',
  'failure-domain.beta.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
]);
const within = (namespace: string, domain: string) => namespace === domain || namespace.endsWith(`.${domain}`);

/** Returns true if a node must not set the label on its own Node object. */
export function isForbidden(label: string): boolean {
  const slash = label.indexOf('/');
  if (slash < 0) return false;
  const namespace = label.slice(0, slash);
  if (within(namespace, 'node-restriction.kubernetes.io')) return true;
  if (!within(namespace, 'kubernetes.io') && !within(namespace, 'k8s.io')) return false;
  return !kubelets.has(label) && !within(namespace, 'kubelet.kubernetes.io') && !within(namespace, 'node.kubernetes.io');
}

type Labels = Readonly<Record<string, string>>;

/** Returns the sorted keys of the labels that differ. */
export function changedLabels(next: Labels = {}, old: Labels = {}): string[] {
  return [...new Set([...Object.keys(next), ...Object.keys(old)])].filter((label) => next[label] !== old[label]).sort();
}
