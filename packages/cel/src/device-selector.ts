import { kubernetesEnvironment } from './checker/environment.ts';
import { compile, type Compiled } from './program.ts';
import { bool, dyn, formatType, map, object, opaque, string } from './types/type.ts';

/** The environment of the CEL selectors of devices, in which the variable `device` is a device of a ResourceSlice. */
const environment = kubernetesEnvironment({
  bindings: true,
  variables: {
    device: object('kubernetes.DRADevice', {
      driver: string,
      attributes: map(string, map(string, dyn)),
      capacity: map(string, map(string, opaque('kubernetes.Quantity'))),
      allowMultipleAllocations: bool,
    }),
  },
});

/** Compiles the CEL selector of a device. `message` is that of Kubernetes. */
export function compileDeviceSelector(expression: string): Compiled {
  const compiled = compile(expression, environment);
  if (compiled.program === undefined) return { ...compiled, message: `compilation failed: ${compiled.message}` };
  const { type } = compiled.program;
  if (type.kind === 'bool' || type.kind === 'dyn') return compiled;
  const message = `must evaluate to bool or the unknown type, not ${formatType(type)}`;
  return { issues: [{ at: 0, message }], message };
}
