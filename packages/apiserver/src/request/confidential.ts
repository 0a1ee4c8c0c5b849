/** Resources whose bodies hold credentials, as `group/resource/subresource`. */
const confidential: ReadonlySet<string> = new Set(['/secrets/', 'authentication.k8s.io/tokenreviews/', '/serviceaccounts/token']);

/**
 * Reports whether bodies of a resource hold credentials. Error messages may quote a body, so spans, and audit events below level Request, keep
 * the reason and the code of such a request's failure without its message.
 */
export const isConfidential = (group: string, resource: string, subresource: string): boolean =>
  confidential.has(`${group}/${resource}/${subresource}`);
