import { featuresForUpdate, undeclaredFeatures } from '@oarlock/api/component-helpers/declared-features';
import { podResources } from '@oarlock/api/component-helpers/pod-resources';
import { nodes } from '@oarlock/api/resources';
import { forbidden } from '@oarlock/api/status';
import type { Node, Pod } from '@oarlock/api/types/core-v1';
import { compareQuantity, milliValueBig, quantityValueBig, zeroQuantity } from '@oarlock/api/values/quantity';
import { Admission, allow, deny, type AdmissionDecision, type AdmissionRequest } from '@oarlock/spi/admission';
import { Informers } from '@oarlock/spi/client';
import { z } from 'zod';

const operatingSystem = 'kubernetes.io/os';
/** The resources that are compared, and their values in messages: CPU in thousandths, memory in bytes. */
const compared = [
  ['cpu', milliValueBig],
  ['memory', quantityValueBig],
] as const;

/**
 * Rejects the resize of a bound pod whose requests exceed what its node can allocate to one pod, or whose node does not run Linux (PodResizeValidator, since
 * 1.36). Clients such as the vertical pod autoscaler read the type of the cause: `NodeCapacity` or `UnsupportedPlatform`. Rejects a resize, too, that
 * requires features which the node does not declare (NodeDeclaredFeatureValidator, KEP-5328): the other features are not about updates.
 */
export default Admission.plugin({
  id: 'admission-pod-resize-validator',
  config: z.strictObject({}),
  needs: { informers: Informers },
  create({ informers }) {
    const known = informers.forResource(nodes);
    return {
      matches: [{ resources: ['pods/resize'], operations: ['UPDATE'] }],
      validate(request) {
        const pod = request.object as Pod | undefined;
        const nodeName = pod?.spec?.nodeName;
        // the generation is incremented only if the spec changes
        if (pod === undefined || !nodeName || pod.metadata?.generation === request.old?.metadata?.generation) return allow;
        const node = known.get(nodeName);
        if (node === undefined) return deny(`node ${JSON.stringify(nodeName)} not found`);
        const platform = node.metadata?.labels?.[operatingSystem];
        if (platform !== undefined && platform !== 'linux') {
          const message = `pod resize is only supported on linux nodes, node ${JSON.stringify(nodeName)} is ${JSON.stringify(platform)}`;
          return denyForCause(request, message, 'UnsupportedPlatform');
        }
        const excess = excessOf(pod, node);
        if (excess.length === 0) return requireFeatures(pod, request.old as Pod | undefined, node);
        return denyForCause(request, `node didn't have enough allocatable resources: ${excess.join('; ')}`, 'NodeCapacity');
      },
    };
  },
});

function excessOf(pod: Pod, { status }: Node): readonly string[] {
  const requests = podResources(pod, 'requests');
  return compared.flatMap(([name, valueOf]) => {
    const [requested, allocatable] = [requests.get(name) ?? zeroQuantity, status?.allocatable?.[name] ?? zeroQuantity];
    return compareQuantity(requested, allocatable) > 0
      ? [`${name}, requested: ${valueOf(requested)}, allocatable: ${valueOf(allocatable)}`]
      : [];
  });
}

function requireFeatures(pod: Pod, old: Pod | undefined, node: Node): AdmissionDecision {
  const required = old?.spec && pod.spec ? featuresForUpdate(old.spec, pod.spec) : [];
  const missing = undeclaredFeatures(node, required);
  if (missing.length === 0) return allow;
  return deny(`pod update requires features ${missing.join(', ')} which are not available on node ${JSON.stringify(node.metadata?.name)}`);
}

function denyForCause({ resource, object }: AdmissionRequest, message: string, reason: string): AdmissionDecision {
  const { status } = forbidden(resource, object?.metadata?.name ?? '', message);
  return deny(message, { status: { ...status, details: { ...status.details, causes: [{ reason }] } } });
}
