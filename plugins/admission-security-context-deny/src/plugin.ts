import type { Container, Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

/**
 * Rejects pods that set users, groups or SELinux labels (SecurityContextDeny). Kubernetes 1.30 removed this plugin in favor of the Pod Security
 * Standards.
 */
export default Admission.plugin({
  id: 'admission-security-context-deny',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['pods'], operations: ['CREATE', 'UPDATE'] }],
    validate({ object }) {
      const because = denialReason((object ?? {}) as Pod);
      return because === undefined ? allow : deny(`${because} is forbidden`);
    },
  }),
});

function denialReason({ spec }: Pod): string | undefined {
  const { supplementalGroups, seLinuxOptions, runAsUser, fsGroup } = spec?.securityContext ?? {};
  if (supplementalGroups !== undefined) return 'pod.Spec.SecurityContext.SupplementalGroups';
  if (seLinuxOptions !== undefined) return 'pod.Spec.SecurityContext.SELinuxOptions';
  if (runAsUser !== undefined) return 'pod.Spec.SecurityContext.RunAsUser';
  if (fsGroup !== undefined) return 'pod.Spec.SecurityContext.FSGroup';
  const containers: readonly Pick<Container, 'securityContext'>[] = [
    ...(spec?.initContainers ?? []),
    ...(spec?.containers ?? []),
    ...(spec?.ephemeralContainers ?? []),
  ];
  for (const { securityContext } of containers) {
    if (securityContext?.seLinuxOptions !== undefined) return 'SecurityContext.SELinuxOptions';
    if (securityContext?.runAsUser !== undefined) return 'SecurityContext.RunAsUser';
  }
  return undefined;
}
