import type { Device, DeviceAttribute, DeviceConstraint } from '@oarlock/api/types/resource-v1';

/** The text that equal values share; undefined without the attribute. One of the driver's own may be named without its domain. */
function valueOf({ attributes = {} }: Device, driver: string, name: string): string | undefined {
  const slash = name.indexOf('/');
  const own = slash >= 0 && name.slice(0, slash) === driver ? attributes[name.slice(slash + 1)] : undefined;
  const found: DeviceAttribute | undefined = attributes[name] ?? own;
  return found && JSON.stringify(found);
}

/** Holds the devices of some requests to one value of an attribute, or to one value each. */
export class ConstraintState {
  readonly #requests: readonly string[] | undefined;
  readonly #attribute: string;
  readonly #distinct: boolean;
  readonly #values: string[] = [];

  constructor({ requests = [], matchAttribute, distinctAttribute }: DeviceConstraint) {
    this.#requests = requests.length === 0 ? undefined : requests;
    this.#attribute = matchAttribute ?? distinctAttribute ?? '';
    this.#distinct = matchAttribute === undefined;
  }

  /** Whether the device may be added; it is, then. */
  add(request: string, device: Device, driver: string): boolean {
    if (!this.#concerns(request)) return true;
    const value = valueOf(device, driver, this.#attribute);
    if (value === undefined) return false;
    if (this.#values.length > 0 && (this.#distinct ? this.#values.includes(value) : this.#values[0] !== value)) return false;
    this.#values.push(value);
    return true;
  }
  /** Takes back the latest. */
  remove(request: string): void {
    if (this.#concerns(request)) this.#values.pop();
  }

  /** `gpu` stands for all alternatives of `gpu`, such as `gpu/large`. */
  #concerns(request: string): boolean {
    return this.#requests === undefined || this.#requests.some((each) => each === request || request.startsWith(`${each}/`));
  }
}
