# fleet_machine for NixOS: the same sources as everywhere, with the distribution's own libraries.
{
  buildPythonPackage,
  setuptools,
  cryptography,
  tpm2-pytss,
  zstandard,
}:
buildPythonPackage {
  pname = "fleet-machine";
  version = "0";
  pyproject = true;
  src = ../../fleet_machine;
  build-system = [ setuptools ];
  dependencies = [
    cryptography
    tpm2-pytss
    zstandard
  ];
  pythonImportsCheck = [ "fleet_machine" ];
}
