# NixOS module of a fleet node: claims the seed once, then shows every hour how the system booted.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.fleetMachine;
  command = arguments: "${cfg.python}/bin/python3 -m fleet_machine ${arguments} --state ${cfg.stateDirectory}";
  # The ticket lies on the ESP, which need not be mounted: mtools and blkid read it where it is.
  tools = [
    pkgs.mtools
    pkgs.util-linux
  ];
in
{
  options.services.fleetMachine = {
    enable = lib.mkEnableOption "the fleet's claim of a seed and hourly boot check";
    python = lib.mkOption {
      type = lib.types.package;
      default = pkgs.python3.withPackages (packages: [ (packages.callPackage ./package.nix { }) ]);
      defaultText = "python3 with fleet_machine";
      description = "A Python that has fleet_machine.";
    };
    stateDirectory = lib.mkOption {
      type = lib.types.str;
      default = "/var/lib/fleet";
      description = "Where seed.json, state.json and the certificates are kept, for root alone.";
    };
    interval = lib.mkOption {
      type = lib.types.str;
      default = "1h";
      description = "Time between two boot checks; fleetd calls a node late after two and a half of its own intervals.";
    };
  };

  config = lib.mkIf cfg.enable {
    security.tpm2.enable = true;

    systemd.services.fleet-claim-seed = {
      description = "Claim this machine's fleet seed";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      startLimitIntervalSec = 0;
      path = tools;
      serviceConfig = {
        Type = "oneshot";
        RemainAfterExit = true;
        ExecStart = command "claim-seed";
        Restart = "on-failure";
        RestartSec = 30;
      };
    };

    systemd.services.fleet-boot-check = {
      description = "Prove to fleetd how this system booted";
      wants = [ "fleet-claim-seed.service" ];
      after = [ "fleet-claim-seed.service" ];
      environment.FLEET_PATIENCE = "600";
      serviceConfig = {
        Type = "oneshot";
        ExecStart = command "boot-check --once";
        Restart = "on-failure";
        RestartPreventExitStatus = "3 4";
        RestartSec = 300;
      };
    };

    systemd.timers.fleet-boot-check = {
      description = "Prove to fleetd once an hour how this system booted";
      wantedBy = [ "timers.target" ];
      timerConfig = {
        OnActiveSec = 5;
        OnUnitInactiveSec = cfg.interval;
        RandomizedDelaySec = 5;
        AccuracySec = 1;
      };
    };
  };
}
