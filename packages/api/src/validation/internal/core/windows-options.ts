import { invalid } from '../../../field/field-error.ts';
import type { PodSpec, WindowsSecurityContextOptions } from '../../../generated/types/core-v1.ts';
import { isDns1123Subdomain } from '../../../values/names.ts';
import { addInvalid, type Errors } from '../checks.ts';

const maxCredentialSpecLength = 64 * 1024;
const maxDomainLength = 256;
const maxUserLength = 104;
const netBiosName = /^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$/;
const domainLabel = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$/;

export function validateWindowsOptions(errors: Errors, path: string, options: WindowsSecurityContextOptions | undefined): void {
  const { gmsaCredentialSpecName: specName, gmsaCredentialSpec: spec, runAsUserName } = options ?? {};
  if (specName !== undefined) addInvalid(errors, `${path}.gmsaCredentialSpecName`, specName, isDns1123Subdomain(specName));
  if (spec === '') errors.push(invalid(`${path}.gmsaCredentialSpec`, spec, 'gmsaCredentialSpec cannot be an empty string'));
  if (spec !== undefined && Buffer.byteLength(spec) > maxCredentialSpecLength)
    errors.push(invalid(`${path}.gmsaCredentialSpec`, spec, 'gmsaCredentialSpec size must be under 64 KiB'));
  if (runAsUserName !== undefined) addInvalid(errors, `${path}.runAsUserName`, runAsUserName, userNameErrors(runAsUserName));
}

/** Returns the errors of a Windows user name, which can have a domain: `DOMAIN\user`. */
function userNameErrors(name: string): readonly string[] {
  if (name === '') return ['runAsUserName cannot be an empty string'];
  if (/\p{Cc}/u.test(name)) return ['runAsUserName cannot contain control characters'];
  const parts = name.split('\\');
  if (parts.length > 2) return ['runAsUserName cannot contain more than one backslash'];
  const [user = '', domain] = parts.toReversed();
  const errors: string[] = [];
  if (domain !== undefined && Buffer.byteLength(domain) >= maxDomainLength)
    errors.push(`runAsUserName's Domain length must be under ${maxDomainLength} characters`);
  if (domain !== undefined && !netBiosName.test(domain) && !domain.split('.').every((label) => domainLabel.test(label)))
    errors.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
  if (user === '') errors.push("runAsUserName's User cannot be empty");
  else if (Buffer.byteLength(user) > maxUserLength)
    errors.push(`runAsUserName's User length must not be longer than ${maxUserLength} characters`);
  if (/^[. ]+$/.test(user)) errors.push("runAsUserName's User cannot contain only periods or spaces");
  if (/["/\\:;|=,+*?<>@[\]]/.test(user)) errors.push('runAsUserName\'s User cannot contain the following characters: "/\\:;|=,+*?<>@[]');
  return errors;
}

/** Validates HostProcess containers of Windows: all containers of a pod are, or none is. */
export function validateHostProcess(errors: Errors, path: string, spec: PodSpec): void {
  const own = spec.securityContext?.windowsOptions?.hostProcess;
  let [total, hostProcesses] = [0, 0];
  for (const list of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
    for (const [i, { securityContext }] of (spec[list] ?? []).entries()) {
      const hostProcess = securityContext?.windowsOptions?.hostProcess;
      total++;
      if (own !== undefined && hostProcess !== undefined && own !== hostProcess)
        errors.push(
          invalid(
            `${path}.${list}[${i}].securityContext.windowsOptions.hostProcess`,
            hostProcess,
            `pod hostProcess value must be identical if both are specified, was ${own}`,
          ),
        );
      if (hostProcess ?? own === true) hostProcesses++;
    }
  }
  if (hostProcesses === 0) return;
  if (hostProcesses !== total)
    errors.push(invalid(path, '', 'If pod contains any hostProcess containers then all containers must be HostProcess containers'));
  if (spec.hostNetwork !== true)
    errors.push(invalid(`${path}.hostNetwork`, false, 'hostNetwork must be true if pod contains any hostProcess containers'));
}
