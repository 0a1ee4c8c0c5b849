import { currentVersion } from '@oarlock/api/component-helpers/feature-gates';
import type { Kind } from '@oarlock/api/kinds';

/**
 * The minor version of Kubernetes 1 in which an API version appeared, or a resource of it, for those that are newer than the oldest version that can be
 * emulated.
 */
const introduced: Readonly<Record<string, number>> = {
  'admissionregistration.k8s.io/v1/mutatingadmissionpolicies': 36,
  'admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings': 36,
  'admissionregistration.k8s.io/v1beta1': 34,
  'certificates.k8s.io/v1beta1/podcertificaterequests': 35,
  'resource.k8s.io/v1': 34,
  'resource.k8s.io/v1alpha3/resourcepoolstatusrequests': 36,
  'resource.k8s.io/v1beta2/devicetaintrules': 36,
  'scheduling.k8s.io/v1alpha2': 36,
  'storage.k8s.io/v1/volumeattributesclasses': 34,
  'storagemigration.k8s.io/v1beta1': 35,
};

/** Returns a filter for the kinds that a version of Kubernetes has. */
export function kindsOfVersion(version: string = currentVersion): (kind: Kind) => boolean {
  const minor = Number(version.split('.')[1]);
  return ({ group, version: apiVersion, resource }) => {
    const groupVersion = `${group}/${apiVersion}`;
    return (introduced[`${groupVersion}/${resource}`] ?? introduced[groupVersion] ?? 0) <= minor;
  };
}
