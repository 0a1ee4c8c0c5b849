import { duplicate, invalid, required } from '../../../field/field-error.ts';
import type { ContainerPort, EnvFromSource, EnvVar } from '../../../generated/types/core-v1.ts';
import { isConfigMapKey, isDns1123Subdomain, isEnvVarName, isPortName, isPortNumber, asPrefix } from '../../../values/names.ts';
import { validateDNSSubdomain, addInvalid, validateEnum, validateNonEmpty, type Errors } from '../checks.ts';
import { validateFieldRef, validateResourceFieldRef } from './volume-projections.ts';

export const protocols = ['SCTP', 'TCP', 'UDP'];

export function validateContainerPorts(errors: Errors, path: string, ports: readonly ContainerPort[]): void {
  const names = new Set<string>();
  for (const [i, port] of ports.entries()) {
    const at = `${path}[${i}]`;
    if (port.name) {
      const messages = isPortName(port.name);
      addInvalid(errors, `${at}.name`, port.name, messages);
      if (messages.length === 0 && names.has(port.name)) errors.push(duplicate(`${at}.name`, port.name));
      names.add(port.name);
    }
    if (!port.containerPort) errors.push(required(`${at}.containerPort`));
    else addInvalid(errors, `${at}.containerPort`, port.containerPort, isPortNumber(port.containerPort));
    if (port.hostPort) addInvalid(errors, `${at}.hostPort`, port.hostPort, isPortNumber(port.hostPort));
    validateEnum(errors, `${at}.protocol`, port.protocol, protocols);
  }
}

function validateKeySelector(errors: Errors, path: string, ref: { readonly name?: string; readonly key: string }): void {
  validateDNSSubdomain(errors, `${path}.name`, ref.name ?? '');
  if (!ref.key) errors.push(required(`${path}.key`));
  else addInvalid(errors, `${path}.key`, ref.key, isConfigMapKey(ref.key));
}

export function validateEnvVars(errors: Errors, path: string, vars: readonly EnvVar[]): void {
  for (const [i, variable] of vars.entries()) {
    const at = `${path}[${i}]`;
    if (!variable.name) errors.push(required(`${at}.name`));
    else addInvalid(errors, `${at}.name`, variable.name, isEnvVarName(variable.name));
    const from = variable.valueFrom;
    if (from === undefined) continue;
    const source = `${at}.valueFrom`;
    if (from.fieldRef !== undefined) validateFieldRef(errors, `${source}.fieldRef`, from.fieldRef, 'env');
    if (from.resourceFieldRef !== undefined) validateResourceFieldRef(errors, `${source}.resourceFieldRef`, from.resourceFieldRef, 'env');
    if (from.configMapKeyRef !== undefined) validateKeySelector(errors, `${source}.configMapKeyRef`, from.configMapKeyRef);
    if (from.secretKeyRef !== undefined) validateKeySelector(errors, `${source}.secretKeyRef`, from.secretKeyRef);
    if (from.fileKeyRef !== undefined) {
      validateNonEmpty(errors, `${source}.fileKeyRef.key`, from.fileKeyRef.key);
      validateNonEmpty(errors, `${source}.fileKeyRef.volumeName`, from.fileKeyRef.volumeName);
      validateNonEmpty(errors, `${source}.fileKeyRef.path`, from.fileKeyRef.path);
    }
    const sources = Object.keys(from).length;
    if (sources === 0)
      errors.push(
        invalid(source, '', 'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`'),
      );
    else if (variable.value) errors.push(invalid(source, '', 'may not be specified when `value` is not empty'));
    else if (sources > 1) errors.push(invalid(source, '', 'may not have more than one field specified at a time'));
  }
}

export function validateEnvFrom(errors: Errors, path: string, sources: readonly EnvFromSource[]): void {
  for (const [i, source] of sources.entries()) {
    const at = `${path}[${i}]`;
    if (source.prefix) addInvalid(errors, `${at}.prefix`, source.prefix, isEnvVarName(source.prefix));
    for (const key of ['configMapRef', 'secretRef'] as const) {
      const ref = source[key];
      if (ref === undefined) continue;
      if (!ref.name) errors.push(required(`${at}.${key}.name`));
      else addInvalid(errors, `${at}.${key}.name`, ref.name, asPrefix(isDns1123Subdomain)(ref.name));
    }
    if (source.configMapRef === undefined && source.secretRef === undefined)
      errors.push(invalid(path, '', 'must specify one of: `configMapRef` or `secretRef`'));
    else if (source.configMapRef !== undefined && source.secretRef !== undefined)
      errors.push(invalid(path, '', 'may not have more than one field specified at a time'));
  }
}
