import type { Container, PodSpec } from '../generated/types/core-v1.ts';

type RestartFields = Pick<Container, 'restartPolicy' | 'restartPolicyRules'>;

/** Returns the action of the first restartPolicyRule that matches the exit code (KEP-5307, KEP-5532); undefined if no rule matches. */
export function matchingRestartRule(
  { restartPolicyRules = [] }: Pick<Container, 'restartPolicyRules'>,
  exitCode: number,
): string | undefined {
  return restartPolicyRules.find(
    ({ exitCodes }) => exitCodes !== undefined && (exitCodes.values?.includes(exitCode) === true) === (exitCodes.operator === 'In'),
  )?.action;
}

/** Returns true if a restartPolicyRule of any container has the action RestartAllContainers. */
export function hasRestartAllContainersRule(spec: Pick<PodSpec, 'containers' | 'initContainers'> | undefined): boolean {
  const requestsRestart = ({ restartPolicyRules }: Container) =>
    restartPolicyRules?.some(({ action }) => action === 'RestartAllContainers') === true;
  return spec?.containers?.some(requestsRestart) === true || spec?.initContainers?.some(requestsRestart) === true;
}

/** Returns true if a container that exited with this code is restarted (ContainerShouldRestart upstream). */
export function restartsAfterExit(podPolicy: string | undefined, container: RestartFields, exitCode: number): boolean {
  if (matchingRestartRule(container, exitCode) !== undefined) return true;
  const policy = container.restartPolicy ?? podPolicy ?? 'Always';
  return policy === 'Always' || (policy === 'OnFailure' && exitCode !== 0);
}
