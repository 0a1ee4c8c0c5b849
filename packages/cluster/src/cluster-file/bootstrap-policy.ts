/** Key of `declares` with which an authorizer declares that it has Kubernetes' bootstrap policy: the roles of components (rbac/bootstrappolicy). */
export const bootstrapPolicy = 'bootstrapPolicy';
