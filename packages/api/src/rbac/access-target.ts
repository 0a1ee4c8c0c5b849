/** The target of a request to authorize: a path, or a resource with its subresource. */
export type AccessTarget = { readonly path: string } | { readonly group: string; readonly resource: string; readonly subresource: string };

/** Parses `deployments.apps/scale` or `/metrics`. */
export function parseAccessTarget(text: string): AccessTarget {
  if (text.startsWith('/')) return { path: text };
  const [full = '', subresource = ''] = text.split('/');
  const [resource = '', ...rest] = full.split('.');
  return { group: rest.join('.'), resource, subresource };
}
