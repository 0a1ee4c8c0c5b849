import { MessageTable } from '@oarlock/grpc/message-table';

/** The messages of the device plugin API v1beta1 that the kubelet uses (KEP-3573). */
export const devicePluginMessages = new MessageTable(
  {
    Empty: {},
    DevicePluginOptions: { preStartRequired: '1 bool', getPreferredAllocationAvailable: '2 bool' },
    RegisterRequest: { version: '1 string', endpoint: '2 string', resourceName: '3 string', options: '4 DevicePluginOptions' },
    RegisterResponse: {},
    Device: { ID: '1 string', health: '2 string' },
    ListAndWatchResponse: { devices: '1 repeated Device' },
    ContainerAllocateRequest: { devicesIDs: '1 repeated string' },
    AllocateRequest: { containerRequests: '1 repeated ContainerAllocateRequest' },
    Mount: { containerPath: '1 string', hostPath: '2 string', readOnly: '3 bool' },
    DeviceSpec: { containerPath: '1 string', hostPath: '2 string', permissions: '3 string' },
    ContainerAllocateResponse: {
      envs: '1 map<string,string>',
      mounts: '2 repeated Mount',
      devices: '3 repeated DeviceSpec',
      annotations: '4 map<string,string>',
      cdiDevices: '5 repeated CDIDevice',
    },
    CDIDevice: { name: '1 string' },
    AllocateResponse: { containerResponses: '1 repeated ContainerAllocateResponse' },
    PreStartContainerRequest: { devicesIDs: '1 repeated string' },
    PreStartContainerResponse: {},
  },
  {},
  { absent: 'undefined' },
);

export interface RegisterRequest {
  readonly version: string;
  readonly endpoint: string;
  readonly resourceName: string;
  readonly options?: { readonly preStartRequired: boolean };
}
/** The devices, mounts and environment variables that the device plugins' Allocate returns for a container. */
export interface ContainerDevices {
  readonly envs: Readonly<Record<string, string>>;
  readonly mounts: readonly { readonly containerPath: string; readonly hostPath: string; readonly readOnly: boolean }[];
  readonly devices: readonly { readonly containerPath: string; readonly hostPath: string; readonly permissions: string }[];
  readonly annotations: Readonly<Record<string, string>>;
  /** CDI device names. */
  readonly cdiDevices?: readonly { readonly name: string }[];
}
