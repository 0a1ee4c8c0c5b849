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

/** Returns true if a kubelet, or what runs on its node, must not set the label on its own Node object (NodeRestriction upstream). */
export function isForbiddenKubeletLabel(label: string): boolean {
  const slash = label.indexOf('/');
  if (slash < 0) return false;
  const namespace = label.slice(0, slash);
  if (within(namespace, 'node-restriction.kubernetes.io')) return true;
  if (!within(namespace, 'kubernetes.io') && !within(namespace, 'k8s.io')) return false;
  return !kubelets.has(label) && !within(namespace, 'kubelet.kubernetes.io') && !within(namespace, 'node.kubernetes.io');
}
