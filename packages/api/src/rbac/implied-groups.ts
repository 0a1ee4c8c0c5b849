const serviceAccountName = /^system:serviceaccount:([^:]+):[^:]+$/;

/** Returns the groups to which a user of this name always belongs, such as those of a service account. */
export function impliedGroups(user: string): readonly string[] {
  if (user === 'system:anonymous') return ['system:unauthenticated'];
  const namespace = serviceAccountName.exec(user)?.[1];
  return [
    ...(namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]),
    ...(user.startsWith('system:node:') ? ['system:nodes'] : []),
    'system:authenticated',
  ];
}
