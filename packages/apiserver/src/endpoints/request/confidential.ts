import { StatusError } from '@oarlock/api/status';

/** The resource, subresource and namespace of a request. */
export interface RequestedResource {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  /** The namespace; '' for cluster-scoped resources and for requests for all namespaces. */
  readonly namespace: string;
}

/** The resources whose bodies contain credentials, keys or private configuration, as `group/resource`. All subresources are included. */
const confidentialResources: ReadonlySet<string> = new Set([
  '/secrets',
  'authentication.k8s.io/tokenreviews',
  'certificates.k8s.io/certificatesigningrequests',
  'certificates.k8s.io/podcertificaterequests',
]);

/**
 * Returns true if the bodies of requests for a resource are confidential: Secrets, TokenReviews, TokenRequests, certificate requests, and ConfigMaps
 * of kube-system. Error messages may quote a body. Of a failed request for such a resource, logs, spans and audit events below level Request
 * therefore contain only the reason and the code.
 */
export function isConfidential({ group, resource, subresource, namespace }: RequestedResource): boolean {
  if (confidentialResources.has(`${group}/${resource}`)) return true;
  if (group !== '') return false;
  return (resource === 'serviceaccounts' && subresource === 'token') || (resource === 'configmaps' && namespace === 'kube-system');
}

/** Returns true if the objects of a stored kind are confidential: Secrets, certificate requests, and ConfigMaps of kube-system. */
export function isConfidentialObject({ group, kind }: { readonly group: string; readonly kind: string }, namespace: string): boolean {
  if (group === 'certificates.k8s.io') return kind === 'CertificateSigningRequest' || kind === 'PodCertificateRequest';
  return group === '' && (kind === 'Secret' || (kind === 'ConfigMap' && namespace === 'kube-system'));
}

/** Returns the reason or the name of an error, without its message, which may quote the request body. */
export const errorName = (error: unknown): string =>
  error instanceof StatusError ? error.reason : error instanceof Error ? error.name : typeof error;

/** Returns the name of an error and the code lines of its stack, without the message and the cause. */
export function stackWithoutMessage(error: unknown): string {
  const name = errorName(error);
  if (!(error instanceof Error) || error.stack === undefined) return name;
  const head = `${error.name}: ${error.message}\n`;
  return error.stack.startsWith(head) ? `${name}\n${error.stack.slice(head.length)}` : name;
}
