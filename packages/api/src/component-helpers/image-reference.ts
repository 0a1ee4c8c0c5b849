/** Matches image references, `[host[:port]/]path[:tag][@algorithm:hex]`, as the package distribution/reference defines them. */
const imageReference = /^[a-zA-Z0-9](?:[a-zA-Z0-9._-]|:\d+\/|\/)*(?::[\w][\w.-]{0,127})?(?:@[a-z0-9]+:[a-fA-F0-9]{32,})?$/;
const maxLength = 4096;

/** Returns the tag or digest after the last path component; undefined if the reference has neither. */
function tagOrDigest(image: string): string | undefined {
  return /[:@]([^/]*)$/.exec(image)?.[1];
}

/** Returns the image with the default tag if it has no tag or digest: `nginx:latest` for `nginx`. */
export const withDefaultTag = (image: string): string => (tagOrDigest(image) === undefined ? `${image}:latest` : image);

/** Returns the image with the default tag if it has no tag or digest. @throws Error if the image reference is invalid */
export function applyDefaultImageTag(image: string): string {
  if (image.length > maxLength || !imageReference.test(image))
    throw new Error(`couldn't parse image name "${image}": invalid reference format`);
  return withDefaultTag(image);
}

/**
 * Returns the default imagePullPolicy: `Always` for an image without tag or with the tag `latest`, otherwise `IfNotPresent`. A digest counts as a
 * tag; an empty image has no tag.
 */
export function defaultPullPolicy(image: string): 'Always' | 'IfNotPresent' {
  if (image === '' || image.includes('@')) return 'IfNotPresent';
  return (tagOrDigest(image) ?? 'latest') === 'latest' ? 'Always' : 'IfNotPresent';
}

/** Returns the image with the default registry and namespace: `docker.io/library/nginx:1` for `nginx:1`. Tag and digest are kept. */
export function withDefaultRegistry(image: string): string {
  const [first = '', ...rest] = image.split('/');
  const hasHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost');
  return hasHost ? image : `docker.io/${rest.length === 0 ? 'library/' : ''}${image}`;
}

/** Returns the repository without tag and digest, with its registry: `nginx:1` -> `docker.io/library/nginx`. */
export const repositoryOf = (image: string): string => withDefaultRegistry(image.replace(/@.*$/, '').replace(/:[^/:]*$/, ''));
